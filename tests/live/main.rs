//! Tests of real processes. Each starts a mesh or a program of its own, on its own ports and in its
//! own directory. They mostly wait, so several run at once; those that need the machine for
//! themselves are in `alone`.

mod alertmanager;
mod bad_broker;
mod budgets;
mod captures;
mod captures_inside;
mod checkpoint;
mod clients;
mod cluster;
mod confirmations;
mod core_nats;
mod dead_letters;
mod doctor;
mod drills;
mod exact;
mod faults;
mod first_steps;
mod fleet;
mod full_disk;
mod history;
mod hostile;
mod killed;
mod openapi;
mod otlp;
mod outage_start;
mod paging;
mod prometheus;
mod protection;
mod regression;
mod report;
mod restart;
mod runs;
mod scrape;
mod service;
mod shards;
mod shared_silences;
mod simulation;
mod stragglers;
mod top;
mod trust;
mod up;
mod up_ends;
