//! The aggregator as a process: its command line, its rule files, and its work on a real broker.

mod command_line;
mod real_broker;
mod rule_files;
