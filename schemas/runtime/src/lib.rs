//! What every process of the mesh does the same way, so that an operator learns it once.
//!
//! [`settings`] reads one configuration from file, environment and flags; [`exit`] is the table of
//! exit codes, [`build`] which build this is; [`logs`] starts logging, [`signals`] receives Unix
//! signals, [`service_manager`] reports to systemd; [`broker_faults`]
//! keeps what was wrong with the broker, [`confirm_key`] the key of confirmations; [`http`] is the
//! HTTP server with limits and protection, [`client`] the HTTP client, [`token`] a secret of the
//! server's clients, [`trust`] the authorities that a client accepts; [`optional`] reads settings
//! that may be empty, [`directory`] checks and makes directories that they name, [`user`] checks as
//! another user; [`page`] writes metrics about the process, [`process`] reads
//! what it uses, [`supervision`] restarts tasks, [`stdout`] prints. Nothing here depends on
//! samples, nodes or budgets.

pub mod absence;
pub mod broker_faults;
pub mod build;
pub mod client;
pub mod confirm_key;
pub mod directory;
pub mod exit;
pub mod http;
pub mod limits;
pub mod logs;
pub mod optional;
pub mod page;
pub mod priority;
pub mod process;
pub mod service_manager;
pub mod settings;
pub mod signals;
pub mod stdout;
pub mod supervision;
pub mod token;
pub mod trust;
pub mod user;

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

/// Runs a process's driver to its end on this thread, and every task that it spawns on a thread of
/// its own, with sockets and timers: a turn of the driver delays no socket, and no socket a turn.
///
/// For a driver whose turns may fill a core. Tasks share one thread as in [`block_on`].
///
/// DESIGN A64.
///
/// # Panics
/// When the system cannot create an event loop or a thread, without which nothing can run.
pub fn block_on_apart<F: Future>(driver: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has room for one event loop");

    let handle = runtime.handle().clone();
    // Dropped when the driver returns or panics.
    let (running, ended) = tokio::sync::oneshot::channel::<()>();

    let tasks = std::thread::Builder::new()
        .name("tasks".to_owned())
        .spawn(move || drop(runtime.block_on(ended)))
        .expect("the system has room for one thread");

    let output = handle.block_on(driver);
    drop(running);
    // A panic of a task ends that task alone.
    let _ended = tasks.join();
    output
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn tasks_run_on_another_thread_while_the_driver_is_busy() {
        let (from, task) = block_on_apart(async {
            let (sender, receiver) = std::sync::mpsc::channel();
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                sender.send(thread::current().id()).expect("the driver waits");
            });
            // A driver that blocks: on one thread the task could not run meanwhile.
            (thread::current().id(), receiver.recv().expect("the task runs"))
        });
        assert_eq!(from, thread::current().id());
        assert_ne!(task, from);
    }
}
