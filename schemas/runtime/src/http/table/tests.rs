//! Which connections are closed, and which are kept, when slots or bytes run out.

use std::future::pending;

use super::*;

const A_SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Mono {
    Mono(seconds * A_SECOND)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A table with `connections` open connections of one address, one a second, from 0 on.
fn table(places: usize, address: IpAddr, connections: u64) -> ConnectionTable {
    let mut table = ConnectionTable::new(places, 1_000);
    for id in 0..connections {
        assert_eq!(table.admit(at(id), address), Some(id));
    }
    table
}

/// The answer to a whole request.
fn answer(table: &mut ConnectionTable, now: Mono, id: ConnectionId, bytes: u64) {
    table.on_request_over(now, id);
    table.on_answer(now, id, bytes);
}

fn ids(table: &ConnectionTable) -> Vec<ConnectionId> {
    table.open.keys().copied().collect()
}

#[test]
fn a_new_connection_replaces_the_longest_idle() {
    let mut table = table(4, address("10.0.0.1"), 4);
    table.on_request(at(4), 0);
    answer(&mut table, at(5), 0, 10);
    assert_eq!(table.admit(at(6), address("10.0.0.1")), Some(4));
    // The first has got as far as being written to, so the second has waited longest.
    assert_eq!(ids(&table), [0, 2, 3, 4]);
    assert_eq!(table.stats().closed_for(CloseReason::Evicted), 1);
}

#[test]
fn no_busy_connection_is_closed() {
    let mut table = table(2, address("10.0.0.1"), 2);
    table.on_request(at(2), 0);
    table.on_request(at(3), 1);
    assert_eq!(table.admit(at(4), address("10.0.0.2")), None);
    assert_eq!((ids(&table), table.stats().closed_for(CloseReason::Rejected)), (vec![0, 1], 1));
    answer(&mut table, at(5), 1, 10);
    assert_eq!(table.admit(at(6), address("10.0.0.2")), Some(2));
    assert_eq!(ids(&table), [0, 2]);
}

#[test]
fn an_address_with_more_than_its_share_goes_before_one_that_waits_longer() {
    let honest = address("10.0.0.9");
    let mut table = table(ADDRESS_SHARE + 4, honest, 2);
    for id in 2..u64::try_from(ADDRESS_SHARE).unwrap() + 4 {
        assert_eq!(table.admit(at(id), address("10.0.0.1")), Some(id));
    }
    for newcomer in 0..100 {
        assert!(table.admit(at(1_000 + newcomer), address("10.0.0.1")).is_some());
    }
    assert_eq!(ids(&table)[..2], [0, 1]);
    // Within its share, no address is closed before another.
    for newcomer in 0..2 {
        let mask = IpAddr::from([10, 1, 0, newcomer]);
        assert!(table.admit(at(2_000), mask).is_some());
    }
    assert!(ids(&table).contains(&0), "two of the address with {} go first", ADDRESS_SHARE + 2);
    assert!(table.admit(at(2_001), address("10.2.0.1")).is_some());
    assert!(!ids(&table).contains(&0));
}

#[test]
fn addresses_of_one_subscriber_count_as_one() {
    for (one, other, same) in [
        ("2001:db8::1", "2001:db8::ffff:1", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
        ("::ffff:10.0.0.1", "10.0.0.1", true),
        ("10.0.0.1", "10.0.0.2", false),
    ] {
        assert_eq!(subscriber(address(one)) == subscriber(address(other)), same, "{one} {other}");
    }
}

#[test]
fn bytes_that_are_owed_are_bounded_and_the_newest_answer_always_gets_out() {
    let mut table = table(8, address("10.0.0.1"), 4);
    for (id, bytes) in [(0, 400), (1, 400)] {
        table.on_request(at(10), id);
        answer(&mut table, at(10 + id), id, bytes);
    }
    table.on_request(at(20), 2);
    answer(&mut table, at(20), 2, 400);
    assert_eq!((ids(&table), table.stats().unsent_bytes), (vec![1, 2, 3], 800));
    answer(&mut table, at(21), 3, 5_000);
    assert_eq!((ids(&table), table.stats().unsent_bytes), (vec![3], 5_000));
    assert_eq!(table.stats().closed_for(CloseReason::Unsent), 3);
}

#[test]
fn an_answer_is_owed_until_the_kernel_has_all_of_it() {
    let mut table = table(8, address("10.0.0.1"), 1);
    table.on_request(at(1), 0);
    answer(&mut table, at(2), 0, 70);
    let writing = [
        (ConnectionStage::Waiting, 0),
        (ConnectionStage::Answering, 0),
        (ConnectionStage::Writing, 1),
    ];
    table.on_written(at(3), 0);
    assert_eq!((table.stats().open, table.stats().unsent_bytes), (writing, 70));
    table.on_body_buffered(0);
    assert_eq!(table.stats().unsent_bytes, 70);
    table.on_written(at(4), 0);
    let stats = table.stats();
    assert_eq!((stats.open[0], stats.unsent_bytes), ((ConnectionStage::Waiting, 1), 0));
    assert_eq!((stats.answered, stats.connections()), (1, 1));
}

#[test]
fn a_connection_with_two_requests_stays_until_both_are_answered() {
    let mut table = table(1, address("10.0.0.1"), 1);
    table.on_request(at(1), 0);
    table.on_request(at(2), 0);
    answer(&mut table, at(3), 0, 70);
    assert_eq!(table.admit(at(4), address("10.0.0.2")), None, "one is still being answered");
    table.on_request(at(4), 0);
    table.on_request_over(at(5), 0);
    answer(&mut table, at(6), 0, 30);
    table.on_body_buffered(0);
    table.on_written(at(7), 0);
    assert_eq!((table.stats().unsent_bytes, table.stats().answered), (100, 0));
    table.on_body_buffered(0);
    table.on_written(at(8), 0);
    let stats = table.stats();
    assert_eq!((stats.open[0], stats.unsent_bytes), ((ConnectionStage::Waiting, 1), 0));
    assert_eq!(stats.answered, 2);
}

#[test]
fn an_answer_before_the_request_is_whole_is_owed_like_any_other() {
    let mut table = table(1, address("10.0.0.1"), 1);
    table.on_answer(at(1), 0, 70);
    assert_eq!(table.stats().open[2], (ConnectionStage::Writing, 1));
    table.on_body_buffered(0);
    table.on_written(at(2), 0);
    assert_eq!(
        (table.stats().open[0], table.stats().unsent_bytes),
        ((ConnectionStage::Waiting, 1), 0)
    );
}

#[test]
fn every_connection_is_open_or_counted_once_under_a_reason() {
    let mut table = table(3, address("10.0.0.1"), 9);
    table.on_closed(8, CloseReason::Finished);
    table.on_closed(8, CloseReason::Broken);
    table.on_closed(0, CloseReason::Broken);
    table.on_accept_failed();
    let stats = table.stats();
    let closed: u64 = stats.closed().iter().map(|(_, n)| n).sum();
    assert_eq!((stats.accepted, stats.connections(), closed), (9, 1, 8));
    assert_eq!(stats.closed_for(CloseReason::Finished), 1);
    assert_eq!(stats.closed_for(CloseReason::Evicted), 7);
    assert_eq!(stats.accept_failures, 1);
}

#[tokio::test]
async fn a_displaced_client_is_ended() {
    let mut table = table(1, address("10.0.0.1"), 1);
    let task = tokio::spawn(pending::<()>());
    table.on_served(0, task.abort_handle());
    table.admit(at(1), address("10.0.0.1"));
    assert!(task.await.unwrap_err().is_cancelled());
}
