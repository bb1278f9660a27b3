//! What every process of the mesh does the same way, so that an operator learns it once.
//!
//! [`settings`] reads one configuration from file, environment and flags; [`exit`] is the table of
//! exit codes; [`logs`] starts logging, [`signals`] receives Unix signals; [`http`] is the HTTP
//! server with limits, [`page`] writes metrics about the process, [`process`] reads what it uses,
//! [`supervision`] restarts tasks. Nothing here depends on samples, nodes or budgets.

pub mod absence;
pub mod exit;
pub mod http;
pub mod limits;
pub mod logs;
pub mod page;
pub mod process;
pub mod settings;
pub mod signals;
pub mod supervision;

/// Runs a process's driver to its end on a runtime of one thread.
///
/// One thread is enough for a driver that does a bounded amount of work each turn, and keeps
/// an agent small.
///
/// # Panics
/// When the system cannot create an event loop, without which nothing can run.
pub fn block_on<F: Future>(driver: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has room for one event loop")
        .block_on(driver)
}
