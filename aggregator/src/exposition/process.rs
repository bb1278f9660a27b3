//! What the system says of this process: CPU, memory, file handles; read by the `prometheus`
//! crate, under the names that every client library uses.

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricType;

use super::writer::{Family, NONE, Value, Writer};

pub(super) fn write(writer: &mut Writer) {
    for found in ProcessCollector::for_self().collect() {
        let counts = found.get_field_type() == MetricType::COUNTER;
        let family = if counts { Family::counter } else { Family::gauge };
        writer.family(family(found.name(), found.help()), |rows| {
            for metric in found.get_metric() {
                let value = if counts {
                    metric.get_counter().get_value()
                } else {
                    metric.get_gauge().get_value()
                };
                rows.add(&[NONE], Value::Float(value));
            }
        });
    }
}
