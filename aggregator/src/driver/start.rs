//! What the starts of an aggregator and of one that waits for a partition have in common.

use std::io;

use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::http::{ListenError, Protection, Server};
use plimsoll_runtime::supervision::Supervisor;

use plimsoll_schemas::time::Wall;

use crate::config::Config;
use crate::io::http::Routes;
use crate::io::profiles::ProfileStore;

/// Why an aggregator did not start.
#[derive(Debug)]
pub struct StartError {
    pub exit: Exit,
    pub message: String,
}

/// Names the key of the settings at fault.
impl From<String> for StartError {
    fn from(message: String) -> Self {
        Self { exit: Exit::Configuration, message }
    }
}

impl From<ListenError> for StartError {
    fn from(error: ListenError) -> Self {
        Self { exit: Exit::Listen, message: error.to_string() }
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self { exit: Exit::Failure, message: error.to_string() }
    }
}

/// The server of pages, and that of probes if it has an address of its own.
pub(super) async fn servers(
    config: &Config,
    protection: &Protection,
    routes: Routes,
    supervisor: &Supervisor,
) -> Result<(Server, Option<Server>), StartError> {
    let (key, address) = ("http.address", config.http.address);
    let pages = Server::start(key, address, protection, routes.pages, supervisor).await?;
    let address = config.http.health_address;
    let probes = Server::start_for_probes(address, routes.probes, supervisor).await?;
    Ok((pages, probes))
}

/// The profiles beside the state file, if there is one.
pub(super) fn profiles(config: &Config, now: Wall) -> Result<Option<ProfileStore>, String> {
    let state = config.state.path.as_deref();
    let open = |state| ProfileStore::open(state, &config.mesh, config.profiles.clone(), now);
    state.map(open).transpose()
}
