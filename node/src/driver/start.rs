//! Why a node did not start.

use plimsoll_runtime::exit::Exit;

/// An error of the start, with the exit code that it causes.
#[derive(Debug)]
pub struct StartError {
    pub exit: Exit,
    pub message: String,
}

impl StartError {
    pub(super) fn new(exit: Exit, message: &dyn ToString) -> Self {
        Self { exit, message: message.to_string() }
    }

    pub(super) fn configuration(message: &dyn ToString) -> Self {
        Self::new(Exit::Configuration, message)
    }

    pub(super) fn listen(message: &dyn ToString) -> Self {
        Self::new(Exit::Listen, message)
    }
}
