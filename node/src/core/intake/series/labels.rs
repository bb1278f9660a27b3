//! Turns the tags of a line into labels of a series. Never rejects a line, because a sample is
//! worth more than its tags: a tag that does not fit is sanitized, a tag that the rules exclude is
//! dropped, and both are counted.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_schemas::ids::Labels;
use plimsoll_schemas::limits::wire::{LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};

/// The label that a container field becomes.
pub const CONTAINER: &str = "container";

/// Which tags become labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelRules {
    /// Keys that are kept; all when it is empty.
    pub allow: BTreeSet<String>,
    /// Keys that are dropped even if they are allowed.
    pub drop: BTreeSet<String>,
    pub container: bool,
}

/// Tags of one line, or of all, that did not become labels unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelStats<N = u64> {
    /// Dropped because the key is not in the list of allowed keys.
    pub allow: N,
    /// Dropped because the key is in the list of dropped keys.
    pub drop: N,
    /// Dropped because the series has the greatest number of labels.
    pub too_many: N,
    pub repeated: N,
    pub no_key: N,
    /// Sanitized: a character or the length did not fit.
    pub sanitized: N,
}

/// Those of one line, which has at most some thousand tags.
pub(crate) type LineLabelStats = LabelStats<u16>;

impl LabelStats {
    /// Adds these once for each of `values` values.
    pub(crate) fn add<N: Into<u64>>(&mut self, more: LabelStats<N>, values: u64) {
        let LabelStats { allow, drop, too_many, repeated, no_key, sanitized } = more;
        self.allow += allow.into() * values;
        self.drop += drop.into() * values;
        self.too_many += too_many.into() * values;
        self.repeated += repeated.into() * values;
        self.no_key += no_key.into() * values;
        self.sanitized += sanitized.into() * values;
    }

    /// Tags dropped, by reason.
    pub fn dropped(&self) -> [(&'static str, u64); 5] {
        [
            ("allow", self.allow),
            ("drop", self.drop),
            ("too_many", self.too_many),
            ("repeated", self.repeated),
            ("no_key", self.no_key),
        ]
    }
}

/// The pairs of a tag list. A tag without a colon is a key with an empty value.
fn pairs(tags: &str) -> impl Iterator<Item = (&str, &str)> {
    tags.split(',')
        .filter(|tag| !tag.is_empty())
        .map(|tag| tag.split_once(':').unwrap_or((tag, "")))
}

impl LabelRules {
    /// The labels of a line with these tags and this container field (either may be empty), and
    /// statistics if not all tags became labels unchanged. The first of two equal keys wins, and
    /// a tag wins over the field.
    pub(crate) fn read(&self, tags: &str, container: &str) -> (Labels, Option<LineLabelStats>) {
        let container = Some((CONTAINER, container)).filter(|(_, id)| !id.is_empty());
        self.keep(pairs(tags).chain(container.filter(|_| self.container)))
    }

    /// The labels of a client that the rules allow.
    pub(crate) fn filter(&self, labels: Labels) -> (Labels, Option<LineLabelStats>) {
        if self.allow.is_empty() && self.drop.is_empty() {
            return (labels, None);
        }
        self.keep(labels.iter())
    }

    /// Whether a key may become a label.
    pub(crate) fn keeps(&self, key: &str) -> bool {
        (self.allow.is_empty() || self.allow.contains(key)) && !self.drop.contains(key)
    }

    /// The pairs that the rules allow, sanitized. The first of two equal keys wins.
    pub(crate) fn keep<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> (Labels, Option<LineLabelStats>) {
        let mut kept: BTreeMap<String, String> = BTreeMap::new();
        let mut stats = LineLabelStats::default();

        for (raw_key, raw_value) in pairs {
            let key = sanitize(raw_key, LABEL_KEY_BYTES_MAX, |c| {
                c.is_ascii_alphanumeric() || "_.-".contains(c)
            });

            let count = if key.is_empty() {
                &mut stats.no_key
            } else if !self.allow.is_empty() && !self.allow.contains(&key) {
                &mut stats.allow
            } else if self.drop.contains(&key) {
                &mut stats.drop
            } else if kept.contains_key(&key) {
                &mut stats.repeated
            } else if kept.len() == LABELS_MAX {
                &mut stats.too_many
            } else {
                let value = sanitize(raw_value, LABEL_VALUE_BYTES_MAX, |c| !c.is_control());
                stats.sanitized += u16::from(key != raw_key || value != raw_value);
                kept.insert(key, value);
                continue;
            };

            *count += 1;
        }

        let stats = Some(stats).filter(|stats| *stats != LineLabelStats::default());
        (Labels::new(kept).unwrap_or_default(), stats)
    }
}

fn sanitize(text: &str, max: usize, fits: impl Fn(char) -> bool) -> String {
    let mut sanitized = String::with_capacity(text.len().min(max));
    for c in text.chars().map(|c| if fits(c) { c } else { '_' }) {
        if sanitized.len() + c.len_utf8() > max {
            break;
        }
        sanitized.push(c);
    }
    sanitized
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], drop: &[&str], container: bool) -> LabelRules {
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        LabelRules { allow: keys(allow), drop: keys(drop), container }
    }

    fn read(rules: &LabelRules, tags: &str, container: &str) -> (Vec<String>, LineLabelStats) {
        let (labels, stats) = rules.read(tags, container);
        let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
        (labels.collect(), stats.unwrap_or_default())
    }

    #[test]
    fn tags_that_no_label_can_hold_are_sanitized_and_counted() {
        let long = "é".repeat(LABEL_VALUE_BYTES_MAX);
        let (labels, stats) =
            LabelRules::default().read(&format!("a b:1,a_b:2,x:{long},:v,y:\u{7}\"\n,z"), "");
        assert_eq!(labels.get("a_b"), Some("1"));
        assert_eq!(labels.get("x").map(str::len), Some(LABEL_VALUE_BYTES_MAX));
        assert_eq!((labels.get("y"), labels.get("z")), (Some("_\"_"), Some("")));
        let expected =
            LineLabelStats { sanitized: 3, repeated: 1, no_key: 1, ..LineLabelStats::default() };
        assert_eq!((labels.iter().count(), stats), (4, Some(expected)));
    }

    #[test]
    fn a_value_of_ten_thousand_bytes_with_emoji_is_cut_at_a_character() {
        let (labels, stats) = LabelRules::default().read(&format!("a:x{}", "🦀".repeat(2_500)), "");
        let value = labels.get("a").unwrap();
        assert_eq!(value, format!("x{}", "🦀".repeat((LABEL_VALUE_BYTES_MAX - 1) / 4)));
        assert_eq!(stats.unwrap().sanitized, 1);
    }

    #[test]
    fn lists_decide_which_keys_are_kept() {
        let none = LineLabelStats::default();
        for (rules, expected, stats) in [
            (rules(&[], &[], false), &["a=1", "b=2", "c=3"][..], none),
            (rules(&["a", "b"], &[], false), &["a=1", "b=2"], LineLabelStats { allow: 1, ..none }),
            (rules(&[], &["a"], false), &["b=2", "c=3"], LineLabelStats { drop: 1, ..none }),
            (
                rules(&["a", "b"], &["b"], false),
                &["a=1"],
                LineLabelStats { allow: 1, drop: 1, ..none },
            ),
        ] {
            let (kept, counted) = read(&rules, "a:1,b:2,c:3", "");
            assert_eq!(
                (&kept[..], counted),
                (&expected.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..], stats)
            );
            let (labels, _) = LabelRules::default().read("a:1,b:2,c:3", "");
            assert_eq!(rules.filter(labels).0.iter().count(), expected.len());
        }
    }

    #[test]
    fn the_container_is_a_label_if_enabled_and_no_tag_sets_it() {
        assert_eq!(read(&rules(&[], &[], false), "a:1", "ci-7").0, ["a=1"]);
        assert_eq!(read(&rules(&[], &[], true), "a:1", "ci-7").0, ["a=1", "container=ci-7"]);
        assert_eq!(read(&rules(&[], &[], true), "", "").0, [""; 0]);
        let (kept, stats) = read(&rules(&[], &[], true), "container:x", "ci-7");
        assert_eq!((kept, stats.repeated), (vec!["container=x".to_owned()], 1));
    }

    #[test]
    fn labels_past_the_greatest_number_are_left_out_and_counted() {
        let tags: Vec<String> = (0..LABELS_MAX + 5).map(|n| format!("k{n}:v")).collect();
        let (labels, stats) = LabelRules::default().read(&tags.join(","), "");
        assert_eq!((labels.iter().count(), stats.unwrap().too_many), (LABELS_MAX, 5));
    }
}
