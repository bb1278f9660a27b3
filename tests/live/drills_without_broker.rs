//! A drill whose mesh has no broker must not pass. Drills that bypass the broker prove nothing.

use std::time::Duration;

use plimsoll_tests::program::{ScratchDir, program, run};

#[tokio::test]
async fn a_drill_without_a_bus_never_passes() {
    for drill in ["drill-latency", "drill-hardware", "drill-backpressure", "drill-faults"] {
        let place = ScratchDir::new().unwrap();
        let mut command = program(drill).unwrap();
        command.arg("--dir").arg(place.path());
        command.env("PLIMSOLL_NATS_SERVER", place.path().join("nats-server"));
        let ended = run(command, Duration::from_secs(60)).await.unwrap();
        assert_ne!(ended.code, Some(0), "{drill}: {ended:?}");
        assert!(ended.stderr.contains("nats-server"), "{drill}: {ended:?}");
    }
}
