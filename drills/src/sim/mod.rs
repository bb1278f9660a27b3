//! The mesh without machines: the real cores of node and aggregator, in virtual time, between
//! models of everything that can fail. One seed decides all of it.
//!
//! [`plan`] draws what a run consists of, [`world`] runs it, [`oracle`] judges it, and
//! [`campaign`] starts many runs. The rooms of a run are [`broker`], [`network`], [`node`],
//! [`reader`] (an aggregator's process) and [`oracle`]; each owns its state, gets the [`kernel`]
//! as an argument, and the world alone sees them all. [`cores`] alone imports the real cores.
//! Nothing in here waits, sleeps or reads a clock, and no two threads work on one run.
//!
//! DESIGN D4.

pub mod act;
pub mod broker;
pub mod campaign;
pub mod clocks;
pub mod cores;
pub mod event;
pub mod kernel;
pub mod machine;
pub mod network;
pub mod node;
pub mod oracle;
pub mod plan;
pub mod reached;
pub mod reader;
pub mod report;
pub mod rng;
pub mod rooms;
pub mod schedule;
pub mod shrink;
pub mod world;
