//! Two nodes with one name are warned of, and not too often.

use super::*;

#[test]
fn two_nodes_with_one_name_are_each_merged_once_and_warned_of_once_a_minute() {
    let mut core = core();
    let mut speakers = [1, 2].map(|incarnation| Speaker::new("a").of(incarnation));
    let (mut now, mut sent) = (start(), Vec::new());
    for second in 0..150 {
        now = now.after(SECOND);
        for speaker in &mut speakers {
            let message = speaker.send(now, MS, 1);
            deliver(&mut core, now, &message);
            deliver(&mut core, now, &message);
        }
        sent.extend(core.next_conflict(now.mono).map(|node| (second, node.to_string())));
    }
    let seconds: Vec<u32> = sent.iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, [4, 64, 124]);
    let view = core.view(now.wall, "test");
    assert_eq!(view.summary.nodes[0].ledger.merged, 300);
    assert!(view.summary.nodes[0].ledger.is_settled());
    let page = crate::exposition::fleet(&view, &[]);
    assert!(
        page.contains("plimsoll_node_duplicate_name_snapshots_total{node=\"a\"} 146\n"),
        "{page}"
    );
}
