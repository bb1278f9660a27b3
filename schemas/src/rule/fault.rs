//! Errors in rule files, with the position in the text.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::limits::rules::FILE_BYTES_MAX;

/// Why rules were refused: which file, where in it, which rule, which key, and the fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct RuleError {
    /// The file, or another source of the rules.
    pub file: String,
    /// Line and column, counted from 1; `None` for a source that is not a file.
    pub at: Option<(usize, usize)>,
    /// Such as `budget "publish"`.
    pub rule: Option<String>,
    /// The key at fault.
    pub key: Option<String>,
    /// What is wrong, and the fix.
    pub problem: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if let Some((line, column)) = self.at {
            write!(f, "line {line}, column {column}: ")?;
        }
        for part in [&self.rule, &self.key].into_iter().flatten() {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.problem)
    }
}

impl RuleError {
    /// An error about a file as a whole.
    #[must_use]
    pub fn of_file(file: impl Into<String>, problem: impl Into<String>) -> Self {
        let (file, problem) = (file.into(), problem.into());
        Self { file, at: None, rule: None, key: None, problem }
    }
}

/// The text of a file of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText {
    /// What an error calls it: its path.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Which tables are taken from it; [`RuleTables::All`] of a file that has nothing else.
    pub tables: RuleTables,
    /// Whether lines and columns are those that a person wrote.
    pub placed: bool,
}

/// Which tables are taken from a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleTables {
    /// All that there can be; any other key is wrong.
    All,
    /// Of settings, which have other keys as well: its budgets, its rules.
    Some {
        /// Whether `[[budget]]` is taken.
        budget: bool,
        /// Whether `[[rule]]` is taken.
        rule: bool,
    },
}

impl RuleText {
    /// A file of rules and nothing else.
    ///
    /// # Errors
    /// When it is too large or not UTF-8.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, RuleError> {
        let name = name.into();
        if bytes.len() > FILE_BYTES_MAX {
            let problem = format!("more than {FILE_BYTES_MAX} bytes; split it with `include`");
            return Err(RuleError::of_file(name, problem));
        }

        let (tables, placed) = (RuleTables::All, true);

        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { name, text, tables, placed }),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
                let text = Arc::new(Self { name, text, tables, placed });

                Err(TextPosition { text, offset: valid }.fault(
                    None,
                    None,
                    "not UTF-8; save it as UTF-8",
                ))
            }
        }
    }
}

/// How errors call the files that are shipped.
pub(super) const SHIPPED: [&str; 2] = ["built_in.toml", "defaults.toml"];

/// A position in a text.
#[derive(Clone, Debug)]
pub(super) struct TextPosition {
    pub(super) text: Arc<RuleText>,
    /// In bytes.
    pub(super) offset: usize,
}

impl TextPosition {
    /// What is wrong here.
    pub(super) fn fault(
        &self,
        rule: Option<String>,
        key: Option<&str>,
        problem: impl Into<String>,
    ) -> RuleError {
        let (file, key) = (self.text.name.clone(), key.map(str::to_owned));
        let at = self.text.placed.then(|| self.line_and_column());
        RuleError { file, at, rule, key, problem: problem.into() }
    }

    /// Whether it is in a built-in file, which the operator does not edit.
    pub(super) fn is_shipped(&self) -> bool {
        SHIPPED.contains(&self.text.name.as_str())
    }

    /// Counted from 1; columns in characters.
    pub(super) fn line_and_column(&self) -> (usize, usize) {
        let text = &self.text.text;
        let before = text.get(..self.offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        (line, before.chars().rev().take_while(|c| *c != '\n').count() + 1)
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text.name)?;
        match self.text.placed {
            true => write!(f, " line {}", self.line_and_column().0),
            false => Ok(()),
        }
    }
}

/// A value and its position in the file.
#[derive(Clone, Debug)]
pub(super) struct LocatedValue<T> {
    pub(super) value: T,
    pub(super) position: TextPosition,
}
