//! Captures of real CPython processes, with every supported interpreter that is in the path.

mod endings;
mod program;
mod rights;
mod serve;
mod stacks;
mod threads;
mod torn;
