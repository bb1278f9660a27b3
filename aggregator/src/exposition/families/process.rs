//! CPU, memory and file handles of this process, read by the `prometheus` crate under the names
//! that every client library uses.

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricType;

use crate::exposition::writer::{Family, NONE, Value, Writer};

pub(super) fn write(writer: &mut Writer) {
    for found in ProcessCollector::for_self().collect() {
        let is_counter = found.get_field_type() == MetricType::COUNTER;
        let family = if is_counter { Family::counter } else { Family::gauge };
        writer.family(family(found.name(), found.help()), |rows| {
            for metric in found.get_metric() {
                let value = if is_counter {
                    metric.get_counter().get_value()
                } else {
                    metric.get_gauge().get_value()
                };
                rows.add(&[NONE], Value::Float(value));
            }
        });
    }
}
