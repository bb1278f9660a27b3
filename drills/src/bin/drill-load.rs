//! `drill-load`: numbered samples through real nodes, by a schedule that is fixed before the start.

use std::process::ExitCode;

use plimsoll_drills::live::frame::Program;
use plimsoll_drills::load::load;

const PROGRAM: Program = Program {
    name: "drill-load",
    about: "Send samples through real nodes: prints samples sent, merged and lost, and delivery times",
    examples: "Examples:
  drill-load                                            60 samples as fast as possible
  drill-load --count 100000 --rate 5000 --nodes 4       20 s of load on four nodes
  drill-load --count 103000 --rate 1000 --burst-after 1 --nodes 2 --udp
  drill-load --count 600 --rate 20 --priority critical  samples over the limit of a budget
  drill-load --count 50000 --rate 0 --operations 8 --json
  drill-load --broker nats://127.0.0.1:4222 --aggregator 127.0.0.1:9900 --mesh default

Deliveries are measured from when a sample was due to when the aggregator's page shows it; a node
sends once a second, so the lowest median is about half a second.

Over the Unix socket no sample may be lost. Over UDP at most 5 % may, and each loss must be named.
Datagrams are accounted for exactly: each is read, or counted by its node as dropped in the kernel.
That count does not state how many samples a datagram had, so the samples that a node did not accept
must be as many as its dropped datagrams can have held: exact with --per-datagram 1 or when nothing
was dropped, else between the counts of the smallest and the largest datagrams. Samples that a node
accepted and the aggregator did not merge are reported exactly by the ledger.",
};

fn main() -> ExitCode {
    PROGRAM.main(load)
}
