//! Numbered datagrams: the interval's ledger entry counts what a socket lost.

use super::*;

#[test]
fn a_gap_is_lost_by_name_and_a_repetition_taken_once() {
    let mut intake = intake();
    for (datagram, refused) in [
        ("_seq|a|1|0|2\na:1:2|ms", BTreeMap::new()),
        ("_seq|a|4|12|1\r\na:3|ms\n", BTreeMap::new()),
        ("_seq|a|4|12|1\na:3|ms", BTreeMap::from([("duplicate", 1)])),
        ("_seq|a|x\na:4|ms", BTreeMap::from([("sequence", 1)])),
    ] {
        assert_eq!(take(&mut intake, datagram.as_bytes()), refused, "{datagram}");
    }
    let figures = intake.stats();
    assert_eq!((figures.samples, figures.client_lost_datagrams, figures.clients), (4, 2, 1));
    assert_eq!(intake.open_samples(), 14);
    assert_eq!(intake.close(NOW).lost, BTreeMap::from([(SOCKET, 10)]));
    assert_eq!(intake.close(NOW).lost, BTreeMap::new());
}

#[test]
fn claims_beyond_any_count_stay_at_the_greatest() {
    let mut intake = intake();
    for client in 0..2_100 {
        take(&mut intake, format!("_seq|c{client}|1|0|0").as_bytes());
        take(&mut intake, format!("_seq|c{client}|9007199254740992|0|0").as_bytes());
    }
    assert_eq!(intake.stats().client_lost_datagrams, u64::MAX);
}

#[test]
fn a_loss_that_no_ledger_can_hold_is_cut_to_what_it_can() {
    let mut intake = intake();
    let most = crate::limits::LOST_SAMPLES_MAX;
    take(&mut intake, b"_seq|a|1|0|0");
    let mut before = 0;
    for n in 0..=(1_u64 << 18) {
        before += most;
        take(&mut intake, format!("_seq|a|{}|{before}|0", 3 + 2 * n).as_bytes());
    }
    let most = plimsoll_schemas::limits::wire::COUNT_MAX;
    assert_eq!(intake.close(NOW).lost, BTreeMap::from([(SOCKET, most)]));
    assert_eq!(take(&mut intake, b"a:1|ms"), BTreeMap::from([("samples_cap", 1)]));
}

#[test]
fn a_final_datagram_ends_what_its_client_brought_and_nothing_of_others() {
    let mut intake = intake();
    let mut ended_after = |datagrams: &[&str]| {
        for datagram in datagrams {
            assert_eq!(take(&mut intake, datagram.as_bytes()), BTreeMap::new(), "{datagram}");
        }
        intake.close(NOW);
        let ended: Vec<String> =
            intake.ended_operations().iter().map(ToString::to_string).collect();
        ended
    };
    let first = ["_seq|a|1|0|2\nx:1|ms\ny:1|ms|#rank:1", "_seq|b|1|0|1\ny:1|ms|#rank:2", "z:1|h"];
    assert!(ended_after(&first).is_empty());
    assert_eq!(ended_after(&["_seq|a|2|2|0|last"]), ["x"]);
    // Its own last samples, a gauge, and a line without a number after it.
    assert_eq!(ended_after(&["_seq|b|2|1|1|last\ny:1|ms\ng:1|g", "z:1|h"]), ["x", "y"]);
    assert_eq!(ended_after(&["x:1|ms"]), ["y"]);
}
