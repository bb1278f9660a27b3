//! Sequence numbers of clients show which samples were lost and which lines are duplicates.

use proptest::prelude::*;

use super::*;

fn receive(clients: &mut Clients, line: &str) -> Result<(u64, u64), Reject> {
    let (_, missing) = clients.on_datagram(&Sequence::parse(line.as_bytes())?)?;
    Ok((missing.datagrams, missing.samples))
}

#[test]
fn a_number_reveals_what_is_missing() {
    let mut clients = Clients::default();
    for (line, expected) in [
        ("_seq|a|3|50|10", Ok((0, 0))),
        ("_seq|a|4|60|5", Ok((0, 0))),
        ("_seq|b|1|0|5", Ok((0, 0))),
        ("_seq|a|7|100|1", Ok((2, 35))),
        ("_seq|a|7|100|1", Err(Reject::Duplicate)),
        ("_seq|a|5|65|20", Err(Reject::Duplicate)),
        ("_seq|a|9|101|0", Ok((1, 0))),
        ("_seq|b|3|9|0", Ok((1, 4))),
        ("_seq|b|5|3|0", Err(Reject::Sequence)),
        ("_seq|b|6|3|0", Ok((0, 0))),
        ("_seq|b|8|9007199254740992|0", Err(Reject::Sequence)),
    ] {
        assert_eq!(receive(&mut clients, line), expected, "{line}");
    }
    assert_eq!(clients.len(), 2);
}

#[test]
fn a_line_that_is_not_exactly_a_position_is_refused() {
    let long = format!("_seq|{}|1|0|0", "a".repeat(65));
    for line in [
        "_seq|a|1|0",
        "_seq|a|1|0|0|0",
        "_seq|a|1|0|0|",
        "_seq|a|1|0|0|Last",
        "_seq|a|1|0|0|last|",
        "_seq|a|0|0|0",
        "_seq||1|0|0",
        "_seq|a b|1|0|0",
        "_seq|é|1|0|0",
        "_seq|a|-1|0|0",
        "_seq|a|+1|0|0",
        "_seq|a|1.0|0|0",
        "_seq|a|1||0",
        "_seq|a|9007199254740993|0|0",
        "_seq|a|1|9007199254740992|1",
        "_seq|a|1|18446744073709551615|1",
        "_seq|",
        &long,
    ] {
        assert_eq!(Sequence::parse(line.as_bytes()), Err(Reject::Sequence), "{line}");
    }
    assert!(Sequence::parse(long.replacen('a', "", 1).as_bytes()).is_ok());
    assert_eq!(Sequence::parse(b"_seq|\xff|1|0|0"), Err(Reject::Sequence));
}

#[test]
fn frames_and_datagrams_of_one_client_have_numbers_of_their_own() {
    let mut clients = Clients::default();
    assert_eq!(clients.frame("a"), Seq(0));
    assert!(clients.on_frame("a", Seq(7)).is_some());
    assert_eq!(receive(&mut clients, "_seq|a|1|0|1"), Ok((0, 0)));
    assert_eq!([7, 6].map(|seq| clients.on_frame("a", Seq(seq))), [None, None]);
    assert!(clients.on_frame("a", Seq(9)).is_some());
    assert_eq!(clients.frame("a"), Seq(9));
}

#[test]
fn for_one_more_client_the_longest_idle_is_evicted() {
    let mut clients = Clients::default();
    for client in 0..CLIENTS_MAX {
        assert!(clients.on_frame(&format!("c{client}"), Seq(5)).is_some());
    }
    assert!(clients.on_frame("c0", Seq(5)).is_none());
    assert!(clients.on_frame("new", Seq(1)).is_some());
    assert_eq!(clients.len(), CLIENTS_MAX);
    assert_eq!((clients.frame("c0"), clients.frame("c1")), (Seq(5), Seq(0)));
}

proptest! {
    /// Whatever a socket loses, repeats or delays: once a datagram has come, all that was sent up
    /// to it is counted once, as recorded or as lost.
    #[test]
    fn what_was_sent_is_recorded_or_lost_exactly_once(
        datagrams in prop::collection::vec(
            (0..50_u64, 0..4_u8, any::<prop::sample::Index>()), 1..80,
        ),
    ) {
        let mut clients = Clients::default();
        let (mut sent, mut recorded, mut lost, mut newest) = (0, 0, 0, 0);
        let mut lines: Vec<(String, u64)> = Vec::new();
        let mut first_before = None;
        for (number, (samples, fate, other)) in datagrams.into_iter().enumerate() {
            let number = number as u64 + 1;
            lines.push((format!("_seq|a|{number}|{sent}|{samples}"), samples));
            let before = sent;
            sent += samples;
            if fate == 0 {
                continue;
            }
            first_before.get_or_insert(before);
            let (_, missing) = receive(&mut clients, &lines[lines.len() - 1].0).unwrap();
            (recorded, lost, newest) = (recorded + samples, lost + missing, sent);
            if fate == 1 {
                let again = &lines[other.index(lines.len())].0;
                prop_assert_eq!(receive(&mut clients, again), Err(Reject::Duplicate));
            }
        }
        prop_assert_eq!(recorded + lost, newest - first_before.unwrap_or(newest));
    }
}
