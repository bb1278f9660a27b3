//! The connection to the broker: whether it is up, what its events mean for the core, and how long
//! it has been unreachable.

use crate::core::Core;
use plimsoll_bus::{Bus, BusConfig, BusEvent, BusEvents, Delivery};
use plimsoll_runtime::absence::Absence;
use plimsoll_runtime::broker_faults::BrokerFaults;
use plimsoll_schemas::time::Mono;

pub(super) struct Broker {
    /// Whether it is connected or not.
    pub(super) bus: Bus,
    events: BusEvents,
    /// How messages travel; `None` while there is no connection.
    delivery: Option<Delivery>,
    /// True while a connected broker does not answer.
    unresponsive: bool,
    /// The broker's address without secrets, for the log.
    url: String,
    /// What was wrong with the connection.
    pub(super) faults: BrokerFaults,
    absence: Absence,
}

impl Broker {
    /// Connects in the background.
    pub(super) fn connect(config: BusConfig, now: Mono) -> Result<Self, String> {
        let url = config.url_without_secrets();
        let (bus, events) = Bus::connect(config).map_err(|error| format!("bus: {error}"))?;
        Ok(Self {
            bus,
            events,
            delivery: None,
            unresponsive: false,
            url,
            faults: BrokerFaults::default(),
            absence: Absence::since(now),
        })
    }

    /// The next event; `None` once the connection is closed. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<BusEvent> {
        self.events.next().await
    }

    pub(super) fn is_connected(&self) -> bool {
        self.delivery.is_some()
    }

    /// The state as pages show it.
    pub(super) fn state(&self) -> &'static str {
        match self.delivery {
            None => "disconnected",
            Some(_) if self.unresponsive => "silent",
            Some(delivery) => delivery.as_str(),
        }
    }

    pub(super) fn on_event(&mut self, core: &mut Core, now: Mono, event: &BusEvent) {
        match event {
            BusEvent::Connected { delivery, server_version, .. } => {
                tracing::info!(delivery = delivery.as_str(), server_version, "broker connected");
                (self.delivery, self.unresponsive) = (Some(*delivery), false);
            }
            BusEvent::Disconnected => {
                tracing::warn!("broker disconnected");
                (self.delivery, self.unresponsive) = (None, false);
            }
            BusEvent::Stalled => {
                tracing::warn!("broker does not answer");
                self.unresponsive = true;
            }
            BusEvent::RoundTrip(_) => {
                if std::mem::replace(&mut self.unresponsive, false) {
                    tracing::info!("broker answers again");
                }
            }
            BusEvent::Acknowledged { .. }
            | BusEvent::ConnectFailed { .. }
            | BusEvent::Streams { .. }
            | BusEvent::Refused { .. }
            | BusEvent::Denied { .. } => {}
        }

        self.faults.on_event(event);
        core.on_bus_event(now, event);
    }

    /// Logs, seldom, that the broker is unreachable.
    pub(super) fn log_absence(&mut self, now: Mono) {
        let cause = match self.delivery {
            None => self.faults.connect_error().unwrap_or("no answer"),
            Some(_) if self.unresponsive => "no answer",
            Some(_) => return self.absence.on_present(),
        };

        self.absence.on_absent(now);

        if let Some(unreachable) = self.absence.on_deadline(now) {
            let (url, unreachable_s) = (&self.url, unreachable.as_secs());
            tracing::warn!(
                url,
                unreachable_s,
                "broker unreachable: {cause}; check bus.url, its credentials, and the broker"
            );
        }
    }

    pub(super) async fn close(self) {
        self.bus.close().await;
    }

    #[cfg(test)]
    pub(super) fn assume_connected(&mut self, delivery: Delivery) {
        self.delivery = Some(delivery);
    }
}
