//! Captures of real CPython processes, with every supported interpreter that is in the path or of
//! pyenv.

mod conditions;
mod endings;
mod lock;
mod points;
mod program;
mod rights;
mod serve;
mod stacks;
mod threads;
mod torn;
