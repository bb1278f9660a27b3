//! Tests of pages: the data that the script draws, and that no name leaves its place.

use proptest::prelude::*;

use super::*;
use crate::difference::subtract;
use crate::limits::FLAME_WHOLE_NODES_MAX;
use crate::profile::ValueType;
use crate::stack::{Frame, Stack};
use crate::tests::{profile, profiles};

/// What the script reads.
fn data_of(page: &str) -> Value {
    let start = page.split_once("type=\"application/json\">").unwrap().1;
    serde_json::from_str(start.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn nodes_stand_before_what_they_call_with_their_figures() {
    let counts: [(&[&str], u64); 3] = [(&["main:3", "load:5"], 30), (&["main:4"], 10), (&["x"], 2)];
    let page = of_profile("t", &profile(10, 1, &counts), None, ColourBy::Module);
    let data = data_of(&page);
    assert_eq!(data["depth"], json!([0, 1, 2, 1]));
    assert_eq!(data["value"], json!([420.0, 400.0, 300.0, 20.0]));
    assert_eq!(data["own"], json!([0.0, 100.0, 300.0, 20.0]));
    let names: Vec<_> = data["names"].as_array().unwrap().iter().map(|of| of[0].clone()).collect();
    assert_eq!(names, ["all", "main", "load", "x"]);
    assert!(page.contains("<option value=\"module\" selected>"), "{page}");
    assert!(page.contains("400 ns (95.2 %)"), "{page}");
}

#[test]
fn nodes_and_functions_of_a_page_are_bounded() {
    let mut wide = Profile::new(ValueType::wall(), 1);
    for n in 0..700_u32 {
        let frames = vec![Frame::new(&format!("f{n}"), "a.py", 1); 100];
        wide.add(Stack::new(frames), Default::default(), 1 + u64::from(n));
    }
    let page = of_profile("t", &wide, None, ColourBy::default());
    let nodes = data_of(&page)["name"].as_array().unwrap().len();
    assert!((45_000..=FLAME_WHOLE_NODES_MAX + 2).contains(&nodes), "{nodes}");
    assert!(page.len() < 4 << 20, "{}", page.len());
    let rows = page.matches("class=\"find\"").count();
    assert_eq!(rows, PAGE_FUNCTIONS_MAX);
}

proptest! {
    #[test]
    fn no_name_leaves_its_place(a in profiles(), b in profiles(), title in any::<String>()) {
        let difference = subtract(&a, &b, None).unwrap();
        for page in [of_profile(&title, &a, None, ColourBy::Share), of_difference(&title, &difference)] {
            prop_assert_eq!(page.matches("<script").count(), 2, "{}", page);
            prop_assert_eq!(page.matches("</script").count(), 2);
            let harmful = page.contains('\u{202e}') || page.contains('\u{1b}');
            prop_assert!(!harmful);
            let data = data_of(&page);
            let count = data["name"].as_array().unwrap().len();
            prop_assert_eq!(data["value"].as_array().unwrap().len(), count);
            let deltas = if page.contains("id=\"colour\"") { 0 } else { count };
            prop_assert_eq!(data["delta"].as_array().unwrap().len(), deltas);
        }
    }
}
