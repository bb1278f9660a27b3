//! The mesh without machines: the real cores of node and aggregator, in virtual time, between
//! models of everything that can fail. One seed decides all of it.
//!
//! Read [`plan`] for what a run is made of, [`world`] for how it runs, [`book`] for the oracle
//! that judges it, and [`campaign`] for many runs. What is modelled, and how badly it behaves,
//! stands in [`broker`], [`link`], [`clocks`], [`disk`] and [`reader::Store`]. [`node`] and
//! [`reader`] are the only files that know the cores' interfaces. Nothing in here waits, sleeps,
//! or reads a clock, and no two threads work on one run.

pub mod act;
pub mod agenda;
pub mod book;
pub mod broker;
pub mod campaign;
pub mod clocks;
pub mod dice;
pub mod disk;
pub mod link;
pub mod meter;
pub mod node;
pub mod plan;
pub mod reached;
pub mod reader;
pub mod report;
pub mod shrink;
pub mod world;
