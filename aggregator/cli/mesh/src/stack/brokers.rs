//! The broker of a stack: one server, or a cluster of several.

use anyhow::{Result, bail};

use super::options::StackOptions;
use crate::broker::Broker;
use crate::cluster::Cluster;

/// One server or several.
pub(super) enum Brokers {
    One(Broker),
    Cluster(Cluster),
}

impl Brokers {
    /// Starts what `options` name.
    pub(super) async fn start(options: &StackOptions) -> Result<Self> {
        let StackOptions { dir, jetstream, broker_settings, servers, through_proxy, .. } = options;
        match servers {
            0 | 1 => {
                let broker = Broker::start_with(dir, *jetstream, broker_settings.clone());
                Ok(Self::One(broker.await?))
            }
            // Clients learn the addresses of all servers and would pass by the proxy.
            _ if *through_proxy => bail!("there is no proxy in front of a cluster"),
            _ => Ok(Self::Cluster(Cluster::start(dir, *servers, broker_settings).await?)),
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::One(broker) => broker.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// The only server, or the first one.
    pub(super) fn first(&mut self) -> &mut Broker {
        match self {
            Self::One(broker) => broker,
            Self::Cluster(cluster) => cluster.server(0),
        }
    }

    pub(super) fn cluster(&mut self) -> Option<&mut Cluster> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => Some(cluster),
        }
    }

    pub(super) fn check_alive(&mut self) -> Result<()> {
        match self {
            Self::One(broker) => broker.child().check_alive(),
            Self::Cluster(cluster) => {
                let numbers = 0..cluster.servers().len();
                numbers.into_iter().try_for_each(|n| cluster.server(n).child().check_alive())
            }
        }
    }

    pub(super) async fn end(self) -> Result<()> {
        match self {
            Self::One(broker) => broker.end().await.map(drop),
            Self::Cluster(cluster) => cluster.end().await,
        }
    }
}
