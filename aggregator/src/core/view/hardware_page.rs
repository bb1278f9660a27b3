//! The page `/api/v1/hardware`: the newest sensor readings of each node, and why others have no
//! value.

use std::sync::Arc;

use plimsoll_schemas::hardware::Sensor;
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::{HardwarePage, NodeHardware, ReadingRow};
use plimsoll_schemas::time::seconds;

use super::nodes_page::NodesQuery;
use super::read_view::{ReadView, UnknownNode};
use crate::core::fleet::{KnownReading, Node};

/// Which readings a client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardwareQuery {
    pub nodes: NodesQuery,
    pub sensor: Option<&'static Sensor>,
}

impl ReadView {
    pub fn hardware_page(&self, query: &HardwareQuery) -> Result<HardwarePage, UnknownNode> {
        let (nodes, next) = self.list(&query.nodes)?;

        let hardware = |(name, node): (&NodeName, &Arc<Node>)| {
            let readings = node.readings.get().iter();
            let readings = readings.filter(|reading| query.has(reading)).map(row);

            NodeHardware {
                node: name.to_string(),
                presence: node.presence(self.at),
                received_at_seconds: node.readings.received_at().map(|at| seconds(at.0)),
                outdated: node.readings.are_missing(),
                readings: readings.collect(),
            }
        };

        Ok(HardwarePage {
            mesh: self.mesh.to_string(),
            at_seconds: seconds(self.at.0),
            ready: self.ready,
            nodes: nodes.into_iter().map(hardware).collect(),
            next,
        })
    }
}

impl HardwareQuery {
    fn has(&self, reading: &KnownReading<'_>) -> bool {
        self.sensor.is_none_or(|sensor| sensor == reading.sensor())
    }
}

fn row(reading: KnownReading<'_>) -> ReadingRow {
    let sensor = reading.sensor();
    ReadingRow {
        sensor: sensor.name.to_owned(),
        labels: reading.labels.clone(),
        unit: sensor.unit().map(str::to_owned),
        state: reading.state,
        value: reading.value,
        reason: reading.reason.map(str::to_owned),
    }
}
