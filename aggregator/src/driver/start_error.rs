//! Why an aggregator did not start.

use plimsoll_runtime::exit::Exit;

/// Why an aggregator did not start.
#[derive(Debug)]
pub struct StartError {
    /// The exit code.
    pub exit: Exit,
    /// The error message.
    pub message: String,
}
