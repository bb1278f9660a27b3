//! Why an aggregator did not start.

use plimsoll_runtime::exit::Exit;

/// Why an aggregator did not start.
#[derive(Debug)]
pub struct StartError {
    pub exit: Exit,
    pub message: String,
}
