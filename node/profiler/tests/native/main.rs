//! Native stacks of real programs: C, Rust and Python, compiled here.

mod files;
mod program;
mod python;
mod shares;
