//! Several nats-servers as one cluster with replicated streams, each with its own ports and
//! directory; killed when dropped.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::child::{free_port, until};
use crate::jetstream::{self, JetStreamAdmin};

/// A stream that is created and deleted: it exists once every server takes part.
const TRIAL: &str = "cluster-trial";
/// A server drops requests without an answer until the servers have elected a leader.
const TRIAL_WAIT: Duration = Duration::from_secs(2);
const FORM_WAIT: Duration = Duration::from_secs(60);
const LEADER_WAIT: Duration = Duration::from_secs(60);

/// What one server of a cluster needs to know.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name, which it keeps.
    pub name: String,
    /// Where it receives the connections of the others.
    pub listen: String,
    /// Where it finds all servers.
    pub routes: Vec<String>,
}

impl Member {
    /// This many servers on free ports of loopback.
    ///
    /// # Errors
    /// When no port is free.
    pub fn plan(servers: usize) -> Result<Vec<Self>> {
        let address = || Ok(format!("127.0.0.1:{}", free_port()?));
        // All ports before the first server starts, since
        // each one's configuration names the routes of all.
        let routes = (0..servers).map(|_| address()).collect::<Result<Vec<_>>>()?;
        let member = |(number, listen): (usize, &String)| Self {
            name: name(number),
            listen: listen.clone(),
            routes: routes.clone(),
        };
        Ok(routes.iter().enumerate().map(member).collect())
    }

    /// Lines of configuration without TLS.
    pub fn plain(&self) -> String {
        let Self { name, listen, routes } = self;
        let routes: Vec<String> =
            routes.iter().map(|address| format!("\"nats-route://{address}\"")).collect();
        format!(
            "server_name: {name}\ncluster: {{ name: local, listen: \"{listen}\", routes: [{}] }}\n",
            routes.join(", ")
        )
    }
}

/// Servers of one cluster, numbered from 0.
pub struct Cluster {
    servers: Vec<Broker>,
}

impl Cluster {
    /// Starts this many servers below `dir` and waits until each can store a replica. `settings`
    /// are further lines of each one's configuration.
    ///
    /// # Errors
    /// When nats-server is not installed (the text has the command that installs it), or the
    /// servers do not form a cluster.
    pub async fn start(dir: &Path, servers: usize, settings: &str) -> Result<Self> {
        let lines = |member: &Member| Ok(member.plain() + settings);
        let cluster = Self::spawn(dir, servers, true, lines).await?;
        cluster.await_complete().await?;
        Ok(cluster)
    }

    /// Starts servers with the configuration that `lines` makes for each, JetStream included, and
    /// does not wait for more than their ports.
    ///
    /// # Errors
    /// When one does not start, or `lines` fails.
    pub async fn start_with(
        dir: &Path,
        servers: usize,
        lines: impl Fn(&Member) -> Result<String>,
    ) -> Result<Self> {
        Self::spawn(dir, servers, false, lines).await
    }

    async fn spawn(
        dir: &Path,
        servers: usize,
        jetstream: bool,
        lines: impl Fn(&Member) -> Result<String>,
    ) -> Result<Self> {
        let mut cluster = Self { servers: Vec::new() };
        for member in Member::plan(servers)? {
            let dir = dir.join(&member.name);
            std::fs::create_dir_all(&dir)
                .with_context(|| format!("cannot create {}", dir.display()))?;
            cluster.servers.push(Broker::start_with(&dir, jetstream, lines(&member)?).await?);
        }
        Ok(cluster)
    }

    /// A server that has no others beside it.
    pub(crate) fn of(server: Broker) -> Self {
        Self { servers: vec![server] }
    }

    /// Checks that every server runs.
    ///
    /// # Errors
    /// When one has ended; names it, with the end of its log.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(|server| server.child().check_alive())
    }

    /// The URLs of all servers, separated by commas.
    pub fn url(&self) -> String {
        self.servers.iter().map(Broker::url).collect::<Vec<_>>().join(",")
    }

    pub fn servers(&self) -> &[Broker] {
        &self.servers
    }

    /// One server.
    ///
    /// # Panics
    /// When there is none of this number.
    pub fn server(&mut self, number: usize) -> &mut Broker {
        &mut self.servers[number]
    }

    /// Waits until every server can store a replica.
    ///
    /// # Errors
    /// When that takes too long; the text has what a server answers.
    pub async fn await_complete(&self) -> Result<()> {
        let config = json!({
            "name": TRIAL, "subjects": [TRIAL], "storage": "memory",
            "num_replicas": self.servers.len(),
        });

        let what = format!("{} servers form a cluster", self.servers.len());
        // A stream with as many replicas as there are servers
        // is refused as long as one of them is missing.
        let formed = until(&what, FORM_WAIT, async || {
            self.request_within(TRIAL_WAIT, &format!("STREAM.CREATE.{TRIAL}"), &config).ok()
        });
        formed.await?;

        let gone = until("the trial stream is deleted", FORM_WAIT, async || {
            match self.request_within(TRIAL_WAIT, &format!("STREAM.DELETE.{TRIAL}"), &Value::Null) {
                // An earlier request deleted it, and its answer was lost.
                Err(error) if !error.to_string().contains("stream not found") => None,
                _ => Some(()),
            }
        });

        gone.await
    }

    /// Sends a request to the JetStream API by the first server that answers it.
    ///
    /// # Errors
    /// When none does, or it is refused.
    pub fn request(&self, subject: &str, body: &Value) -> Result<Value> {
        self.request_within(jetstream::WAIT, subject, body)
    }

    fn request_within(&self, wait: Duration, subject: &str, body: &Value) -> Result<Value> {
        let mut failed = None;
        for server in &self.servers {
            let answer = JetStreamAdmin::connect_with(&server.url(), wait)
                .and_then(|mut admin| admin.request(subject, body));
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => bail!("a cluster without servers"),
        }
    }

    /// The number of the server that leads a stream, once one does.
    ///
    /// # Errors
    /// When none does in time.
    pub async fn leader(&self, stream: &str) -> Result<usize> {
        let what = format!("a server leads {stream}");
        until(&what, LEADER_WAIT, async || {
            let info = self.request(&format!("STREAM.INFO.{stream}"), &Value::Null).ok()?;
            let leader = info["cluster"]["leader"].as_str()?;
            (0..self.servers.len()).find(|number| name(*number) == leader)
        })
        .await
    }

    /// Ends all servers (SIGTERM).
    ///
    /// # Errors
    /// When one does not end in time.
    pub async fn end(mut self) -> Result<()> {
        for server in &mut self.servers {
            server.terminate().await?;
        }
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("server-{}", number + 1)
}
