//! Tests of pictures: what they show, that names cannot break out, and that the same graph always
//! has the same bytes.

use proptest::prelude::*;

use super::*;
use crate::difference::subtract;
use crate::flame::{of_difference, of_profile};
use crate::tests::{profile, profiles};

const SECOND: u64 = 1_000_000_000;

fn picture() -> String {
    let counts: [(&[&str], u64); 2] = [(&["main:3", "load:5"], 30), (&["main:4", "x:6"], 10)];
    render("node-7", &of_profile(&profile(10_000_000, SECOND, &counts), None))
}

/// Elements that are open at the end of each tag, and texts in between; panics at malformed XML.
fn read(xml: &str) -> Vec<String> {
    let (mut open, mut texts): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = xml;
    while let Some((text, after)) = rest.split_once('<') {
        if let Some(cdata) = after.strip_prefix("![CDATA[") {
            rest = cdata.split_once("]]>").unwrap().1;
            continue;
        }
        texts.push(unescaped(text));
        let (tag, after) = after.split_once('>').unwrap();
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            open.push(tag.split(' ').next().unwrap());
        }
        rest = after;
    }
    assert_eq!((open.len(), rest), (0, ""));
    texts
}

fn unescaped(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    let bare = text.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "");
    assert!(!bare.replace("&quot;", "").contains(['&', '>']), "{text}");
    entities.iter().fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
}

#[test]
fn functions_have_their_place_and_their_figures() {
    let svg = picture();
    let load = "<title>load (a.py:5)\n300 ms (75 %), self 300 ms</title>\
                <rect x=\"10.00\" y=\"96\" width=\"885.00\" height=\"16\" fill=\"hsl(49,83%,70%)\">\
                </rect><text x=\"13.00\" y=\"108\">load (a.py:5)</text>";
    assert!(svg.contains(load), "{svg}");
    assert!(svg.contains("<rect x=\"895.00\" y=\"96\" width=\"295.00\""), "{svg}");
    let texts = read(&svg);
    for text in ["node-7", "wall: 400 ms", "main (a.py:3)\n400 ms (100 %), self 0 s"] {
        assert!(texts.iter().any(|found| found == text), "{text}");
    }
    assert_eq!(svg.matches("tabindex=\"0\"").count(), 1);
}

#[test]
fn a_difference_shows_both_sides_and_which_has_more() {
    let culprit = profile(1_000_000, SECOND, &[(&["a"], 600), (&["b"], 100)]);
    let peer = profile(1_000_000, SECOND, &[(&["a"], 100), (&["b"], 200)]);
    let svg = render("n7 - n2", &of_difference(&subtract(&culprit, &peer, None).unwrap()));
    let texts = read(&svg);
    for text in [
        "a (a.py:1)\n+500 ms/s: culprit 600 ms/s, peer 100 ms/s",
        "b (a.py:1)\n-100 ms/s: culprit 100 ms/s, peer 200 ms/s",
        "wall: culprit 700 ms/s, peer 300 ms/s; red: culprit more, blue: less; width: mean of both",
    ] {
        assert!(texts.iter().any(|found| found == text), "{text}: {texts:?}");
    }
    assert_eq!(svg.matches("fill=\"hsl(4,").count(), 2, "all and a");
    assert_eq!(svg.matches("fill=\"hsl(214,").count(), 1, "b");
}

#[test]
fn a_picture_refers_to_nothing_outside() {
    let svg = picture();
    let addresses = svg.matches("://").count();
    assert_eq!((addresses, svg.matches("http://www.w3.org/2000/svg").count()), (1, 1));
    for outside in ["href", "url(", "@import", "src=", "fetch(", "innerHTML", "eval("] {
        assert!(!svg.contains(outside), "{outside}");
    }
    assert!(!SCRIPT.contains("]]>"), "the script ends where it ends");
}

#[test]
fn labels_are_cut_to_their_width() {
    let table = [
        ("abcdefghij", 6.0 + 10.0 * CHARACTER + 0.1, "abcdefghij"),
        ("abcdefghij", 6.0 + 9.0 * CHARACTER + 0.1, "abcdefgh…"),
        ("éééé", 6.0 + 3.0 * CHARACTER + 0.1, "éé…"),
        ("abc", 6.0 + 2.0 * CHARACTER, ""),
        ("abc", 0.0, ""),
    ];
    for (text, width, label) in table {
        assert_eq!(fitting(text, width), label, "{text} in {width}");
    }
}

#[test]
fn values_have_their_unit() {
    let mut graph = of_profile(&profile(1, SECOND, &[]), None);
    let table = [("nanoseconds", "2 ms"), ("bytes", "1.91 MiB"), ("<b>", "2,000,000 <b>")];
    for (unit, text) in table {
        graph.unit = unit.into();
        assert_eq!(value(2e6, &graph), text);
    }
    read(&render("empty", &graph));
}

proptest! {
    #[test]
    fn no_name_breaks_a_picture(a in profiles(), b in profiles(), title in any::<String>()) {
        let difference = subtract(&a, &b, None).unwrap();
        for graph in [of_profile(&a, None), of_difference(&difference)] {
            let svg = render(&title, &graph);
            prop_assert!(!svg.chars().any(|c| c.is_control() && c != '\n'));
            let texts = read(&svg);
            prop_assert_eq!(&texts[2], &shown(&title));
            let elements = svg.matches("<g class=\"frame\"").count();
            let scripts = svg.matches("<script>").count();
            prop_assert_eq!((scripts, svg.matches("<g ").count()), (1, elements + 1));
            prop_assert_eq!(render(&title, &graph), svg);
        }
    }
}
