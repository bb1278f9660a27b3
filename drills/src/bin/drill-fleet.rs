//! `drill-fleet`: thousands of simulated nodes on a real broker and aggregator, and their ledger.

use std::process::ExitCode;

use plimsoll_drills::fleet::fleet;
use plimsoll_drills::live::frame::Program;

const PROGRAM: Program = Program {
    name: "drill-fleet",
    about: "Send from simulated nodes to a real mesh: every sample must arrive, and no lag may grow",
    examples: "Examples:
  drill-fleet                                      100 nodes for 30 s on a mesh of its own
  drill-fleet --nodes 10000 --seconds 600 --json   the whole fleet, ten minutes
  drill-fleet --nodes 2000 --connections 2000 --restart-broker 10s
                                                   each node reconnects by itself
  drill-fleet --hostile 5 --skewed 4 --leave       floods, wrong clocks, final messages
  drill-fleet --nodes 2000 --fast 20 --scrapers 1  nodes that send, and a scraper that asks, too often
  drill-fleet --largest 10s --restart-nodes 20s    large messages at once, half of the fleet restarts
  drill-fleet --nodes 500 --connections 500 --secured --pair --faults-every 60s --seconds 600
                                                   a pair of aggregators, and faults
  drill-fleet --url nats://127.0.0.1:4222 --aggregator 127.0.0.1:9900 --mesh default",
};

fn main() -> ExitCode {
    PROGRAM.main(fleet)
}
