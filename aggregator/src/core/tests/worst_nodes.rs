//! Which nodes a page of the worst shows.

use plimsoll_schemas::wire::Body;
use plimsoll_schemas::wire::Bus;

use super::*;

fn names(core: &Core, seconds: u32, nodes: Nodes) -> Vec<String> {
    let still = core.read_view(start().after(seconds * SECOND).wall, "t");
    let view = still.view(ViewQuery { fleet: true, nodes, native: false });
    view.summary.nodes.into_iter().map(|row| row.node).collect()
}

#[test]
fn the_worst_nodes_are_those_that_someone_on_call_would_look_at_first() {
    let mut core = core();
    let mut speakers = BTreeMap::new();
    let mut sent = |core: &mut Core, second: u32, name: &'static str, ms, n| {
        let now = start().after(second * SECOND);
        let speaker = speakers.entry(name).or_insert_with(|| Speaker::new(name));
        deliver(core, now, &speaker.send(now, ms * MS, n));
    };
    for second in 0..13 {
        sent(&mut core, second, "a", 1, 200);
        sent(&mut core, second, "z_slow", 40, 200);
        if second == 0 {
            sent(&mut core, second, "x_mute", 1, 200);
        }
        if second >= 11 {
            sent(&mut core, second, "z_slowing", 40, 200);
            // Too few to be evidence.
            sent(&mut core, second, "y_few", 40, 1);
        }
        core.on_deadline(start().after(second * SECOND));
    }
    let worst = ["z_slow", "z_slowing", "x_mute", "y_few", "a"];
    for n in 0..worst.len() {
        assert_eq!(names(&core, 12, Nodes::Worst(n)), worst[..n]);
    }
    assert_eq!(names(&core, 12, Nodes::All), ["a", "x_mute", "y_few", "z_slow", "z_slowing"]);
}

/// Every node that the Prometheus rules match has to be on the page.
#[test]
fn a_node_in_trouble_is_shown_before_those_that_are_merely_slow() {
    let mut core = core();
    let send_bus = |core: &mut Core, speaker: &mut Speaker, second, bus: Bus| {
        let now = start().after(second * SECOND);
        deliver(core, now, &speaker.message(now, Body::Bus(bus), false));
    };
    let quiet = || Bus { kernel_dropped: 5, rerouted: 7, ..Bus::default() };
    let mut slow = Speaker::new("a_slow");
    let mut others =
        ["b_deep", "c_rerouted", "d_kernel", "e_dropped", "f_lost", "g_ended"].map(Speaker::new);
    // What was counted long ago is no news.
    for speaker in &mut others {
        send_bus(&mut core, speaker, 1, quiet());
    }
    for second in 400..413 {
        let now = start().after(second * SECOND);
        deliver(&mut core, now, &slow.send(now, 40 * MS, 200));
        core.on_deadline(now);
    }
    let [deep, rerouted, kernel, dropped, lost, ended] = &mut others;
    send_bus(&mut core, deep, 412, Bus { outbox_pressure: 500_001, ..quiet() });
    send_bus(&mut core, rerouted, 412, Bus { rerouted: 8, ..quiet() });
    send_bus(&mut core, kernel, 412, Bus { kernel_dropped: 6, ..quiet() });
    send_bus(&mut core, dropped, 412, Bus { dropped: 1, ..quiet() });
    lost.send(start(), MS, 3);
    lost.lose(3);
    send_bus(&mut core, lost, 412, quiet());
    let now = start().after(412 * SECOND);
    ended.send(now, MS, 10);
    send_bus(&mut core, ended, 412, quiet());
    deliver(&mut core, now, &Speaker::new("g_ended").of(2).send(now, MS, 1));
    let worst = ["g_ended", "f_lost", "e_dropped", "d_kernel", "c_rerouted", "b_deep", "a_slow"];
    for n in 0..worst.len() {
        assert_eq!(names(&core, 412, Nodes::Worst(n)), worst[..n]);
    }
    let page = crate::exposition::fleet(&core.view(now.wall, "t"), &[]);
    for kind in
        ["outbox_deep", "rerouted", "kernel_dropped", "dropped", "samples_lost", "unaccounted"]
    {
        let row = format!("plimsoll_nodes_in_trouble{{trouble=\"{kind}\"}} 1\n");
        assert!(page.contains(&row), "{row}{page}");
    }
    // An increase expires after a while, a state that lasts does not.
    assert_eq!(names(&core, 412 + 300, Nodes::Worst(2)), ["g_ended", "a_slow"]);
}

#[test]
fn fleet_figures_do_not_depend_on_the_nodes_that_are_shown() {
    let mut core = core();
    for name in ["a", "b", "c"] {
        deliver(&mut core, start(), &Speaker::new(name).send(start(), MS, 7));
    }
    let still = core.read_view(start().wall, "t");
    let of = |nodes| still.view(ViewQuery { fleet: true, nodes, native: true }).summary;
    let (all, one) = (of(Nodes::All), of(Nodes::Worst(1)));
    assert_eq!((all.nodes.len(), one.nodes.len()), (3, 1));
    assert_eq!((one.ledger.merged, &one.ledger, &one.presence), (21, &all.ledger, &all.presence));
    assert_eq!((&one.operations[0], one.operations.len()), (&all.operations[0], 2));
}
