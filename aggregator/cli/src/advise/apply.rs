//! Recommended values in the text of a configuration: each is replaced where it stands, so that the
//! order, the spaces and everything else of the file stay as they are.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::rules::Recommendation;

/// A setting of the configuration that a recommendation changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) current: Value,
    pub(super) recommended: Value,
}

/// A configuration of a job: JSON, whatever its keys.
#[derive(Debug)]
pub(super) struct Config {
    text: String,
    root: Value,
    changed: Vec<Setting>,
}

impl Config {
    /// # Errors
    /// When it is not JSON.
    pub(super) fn read(text: String) -> Result<Self> {
        let root = serde_json::from_str(&text).context("it is not JSON")?;
        Ok(Self { text, root, changed: Vec::new() })
    }

    /// The first setting of a recommendation that it has and that an earlier one does not change.
    pub(super) fn setting(&self, of: &Recommendation) -> Option<Setting> {
        let change = of.change.as_ref()?;
        of.keys.iter().find_map(|key| {
            let current = found(&self.root, key)?;
            let is_taken = self.changed.iter().any(|setting| setting.key == *key);
            let recommended = change.of(current).filter(|_| !is_taken)?;
            Some(Setting { key: key.clone(), current: current.clone(), recommended })
        })
    }

    /// Changes a setting in the text.
    ///
    /// # Errors
    /// When the text has the key twice: which of them is meant is not known.
    pub(super) fn apply(&mut self, setting: Setting) -> Result<()> {
        let quoted = format!("\"{}\"", setting.key);
        let mut places = self.text.match_indices(&quoted).filter_map(|(at, _)| {
            let after = &self.text[at + quoted.len()..];
            let value = after.trim_start().strip_prefix(':')?.trim_start();
            Some(self.text.len() - value.len())
        });
        let start = places.next().context("the key is written in another form")?;
        ensure!(places.next().is_none(), "{quoted} is there twice: change it by hand");

        let value = &self.text[start..];
        let end = value.find([',', '}', ']', '\n']);
        // A text may hold any of these.
        let length = match value.strip_prefix('"') {
            Some(rest) => rest.find('"').map(|end| end + 2),
            None => end.map(|end| value[..end].trim_end().len()),
        };
        let length = length.unwrap_or(value.len());
        self.text.replace_range(start..start + length, &setting.recommended.to_string());
        self.changed.push(setting);
        Ok(())
    }

    /// The changed text, which is JSON with these changes and no others.
    ///
    /// # Errors
    /// When it would not be: nothing is written then.
    pub(super) fn finish(self) -> Result<String> {
        let mut expected = self.root;
        for setting in &self.changed {
            if let Some(value) = found_mut(&mut expected, &setting.key) {
                *value = setting.recommended.clone();
            }
        }
        let written: Value = serde_json::from_str(&self.text).context("the changed text")?;
        ensure!(written == expected, "the changed text differs elsewhere: change it by hand");
        Ok(self.text)
    }
}

/// The value of a key, at any depth.
fn found<'v>(of: &'v Value, key: &str) -> Option<&'v Value> {
    match of {
        Value::Object(fields) => {
            fields.get(key).or_else(|| fields.values().find_map(|of| found(of, key)))
        }
        Value::Array(all) => all.iter().find_map(|of| found(of, key)),
        _ => None,
    }
}

fn found_mut<'v>(of: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    match of {
        Value::Object(fields) => {
            // Looked up first: a borrow that is returned would last for both searches.
            if fields.contains_key(key) {
                return fields.get_mut(key);
            }
            fields.values_mut().find_map(|of| found_mut(of, key))
        }
        Value::Array(all) => all.iter_mut().find_map(|of| found_mut(of, key)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::rules::shipped;
    use super::*;

    fn advised(name: &str) -> Recommendation {
        shipped().into_iter().find(|of| of.name == name).unwrap()
    }

    #[test]
    fn a_value_changes_where_it_stands_and_nothing_else_does() {
        let text = "{\n  \"model\": \"a, b\",\n  \"loader\": { \"num_workers\" : 4 },\n  \
                    \"quantization\": \"f16\"\n}\n";
        let mut config = Config::read(text.to_owned()).unwrap();
        for name in ["loader_workers_up", "quantisation"] {
            let setting = config.setting(&advised(name)).unwrap();
            config.apply(setting).unwrap();
        }
        let wanted = text.replace("\" : 4 }", "\" : 8 }").replace("\"f16\"", "\"q8_0\"");
        assert_eq!(config.finish().unwrap(), wanted);
    }

    #[test]
    fn a_setting_changes_once_and_one_that_is_there_twice_not_at_all() {
        let mut config = Config::read("{\"batch_size\": 32}".to_owned()).unwrap();
        let down = config.setting(&advised("batch_size_down")).unwrap();
        assert_eq!((&down.current, &down.recommended), (&json!(32), &json!(16)));
        config.apply(down).unwrap();
        assert_eq!(config.setting(&advised("batch_size_up")), None);

        let twice = "{\"a\": {\"threads\": 8}, \"b\": {\"threads\": 4}}";
        let mut config = Config::read(twice.to_owned()).unwrap();
        let setting = config.setting(&advised("threads_down")).unwrap();
        assert!(config.apply(setting).unwrap_err().to_string().contains("twice"));
        assert_eq!(config.finish().unwrap(), twice);
        assert!(Config::read("threads: 8".to_owned()).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_stays_json(
            before in any::<String>(), workers in any::<i32>(), space in "[ \n\t]{0,3}",
        ) {
            let text = format!(
                "{{{space}\"x\":{space}{},{space}\"num_workers\"{space}:{space}{workers}{space}}}",
                json!(before)
            );
            let mut config = Config::read(text).unwrap();
            let Some(setting) = config.setting(&advised("loader_workers_up")) else {
                return Ok(());
            };
            let wanted = setting.recommended.clone();
            if config.apply(setting).is_ok() && let Ok(text) = config.finish() {
                let changed: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(&changed["num_workers"], &wanted);
                prop_assert_eq!(&changed["x"], &json!(before));
            }
        }
    }
}
