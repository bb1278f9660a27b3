//! Files of rules: budgets, thresholds and stragglers, laid over each other by name and key by key.
//!
//! Pure: the caller passes a function that opens files. One error rejects the whole set of files.
//!
//! DESIGN S13.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::drafts::{BudgetKeys, Draft, Keys, ThresholdKeys};
use super::fault::{LocatedValue, RuleError, RuleTables, RuleText, SHIPPED, TextPosition};
use super::priorities::PriorityKeys;
use super::rules::Rules;
use super::stragglers::StragglerKeys;
use super::table::{Table, titled, unknown_key};
use super::values;
use crate::budget::{BUILT_IN, Budget};
use crate::ids::RuleName;
use crate::limits::rules::{BUDGETS_MAX, FILES_MAX, INCLUDE_DEPTH_MAX, RULES_MAX, STRAGGLERS_MAX};
use crate::limits::wire::CONFIRMED_URGENT_MAX;
use crate::subject::RESERVED_RULE_NAMES;

/// The thresholds and stragglers that every mesh watches unless a file overrides them.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// Opens a file by its path; an error contains the reason.
pub type OpenFile<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<u8>, String>;

/// Keys of a file of rules.
const KEYS: &[&str] = &["include", "budget", "rule", "priority", "straggler"];

/// Rules out of layers: the shipped files, `files` and what they include, and `over` above all.
///
/// # Errors
/// At the first thing that is wrong, in whichever layer.
pub fn load(
    files: &[String],
    over: Vec<RuleText>,
    time_scale: u32,
    open: OpenFile<'_>,
) -> Result<Rules, RuleError> {
    let mut layers = Layers::default();
    for (name, text) in SHIPPED.into_iter().zip([BUILT_IN, DEFAULTS]) {
        layers.take(RuleText::new(name, text.into())?)?;
    }
    let mut files_read = Vec::new();
    for file in files {
        let path = normal(Path::new(file));
        Includer { open, layers: &mut layers, read: &mut files_read }.file(&path, &[], None)?;
    }
    over.into_iter().try_for_each(|text| layers.take(text))?;
    layers.finish(time_scale)
}

/// Checks one text alone, as far as it can be without what it is laid over.
///
/// # Errors
/// At the first thing that is wrong.
pub fn check(text: RuleText) -> Result<(), RuleError> {
    File::parse(text).map(drop)
}

/// The shipped rules.
#[must_use]
pub fn shipped() -> Rules {
    /// Tests and drills ask thousands of times.
    static ONCE: LazyLock<Rules> = LazyLock::new(|| {
        let none = &mut |_: &str| Err(String::new());
        load(&[], Vec::new(), 1, none).expect("the shipped files are valid, which a test shows")
    });

    ONCE.clone()
}

/// The budgets of these texts, laid over the built-in ones.
///
/// # Errors
/// At the first thing that is wrong.
pub fn effective(texts: &[&str]) -> Result<Vec<Budget>, RuleError> {
    if texts.is_empty() {
        return Ok(shipped().budgets);
    }
    let of = |text: &&str| RuleText::new("a text", text.as_bytes().to_vec());
    let texts = texts.iter().map(of).collect::<Result<_, _>>()?;
    let budgets = load(&[], texts, 1, &mut |_| Err("no file".to_owned()))?.budgets;
    Ok(budgets)
}

/// A path without `.` and `..`, so that one file has one name; `.` alone is one.
fn normal(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    match plain.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => plain,
    }
}

struct Includer<'a, 'b> {
    open: &'a mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    layers: &'b mut Layers,
    read: &'b mut Vec<PathBuf>,
}

impl Includer<'_, '_> {
    /// Reads a file, what it includes before itself. `within` are the files that include it.
    fn file(
        &mut self,
        path: &Path,
        within: &[PathBuf],
        included_at: Option<&TextPosition>,
    ) -> Result<(), RuleError> {
        let name = path.display().to_string();
        let wrong = |problem: String| match included_at {
            Some(position) => position.fault(None, Some("include"), problem),
            None => RuleError::of_file(&name, problem),
        };

        if within.iter().any(|outer| outer == path) {
            let cycle = within.iter().skip_while(|outer| *outer != path);
            let names = cycle.map(|outer| outer.display().to_string()).collect::<Vec<_>>();
            return Err(wrong(format!("a cycle: {} -> {name}", names.join(" -> "))));
        }

        if within.len() > INCLUDE_DEPTH_MAX {
            return Err(wrong(format!(
                "{name} is included more than {INCLUDE_DEPTH_MAX} levels deep"
            )));
        }

        if self.read.len() >= FILES_MAX {
            return Err(wrong(format!("{name} exceeds the limit of {FILES_MAX} files")));
        }
        self.read.push(path.to_owned());

        let unreadable = |why| match included_at {
            Some(_) => wrong(format!("{name}: {why}")),
            None => wrong(why),
        };

        let bytes = (self.open)(&name).map_err(unreadable)?;
        let file = File::parse(RuleText::new(&name, bytes)?)?;
        let within = [within, &[path.to_owned()]].concat();

        for LocatedValue { value, position } in &file.includes {
            let beside = path.parent().unwrap_or(Path::new("")).join(value);
            self.file(&normal(&beside), &within, Some(position))?;
        }

        self.layers.lay(file);
        Ok(())
    }
}

/// One parsed file.
struct File {
    includes: Vec<LocatedValue<String>>,
    budgets: Vec<Draft<BudgetKeys>>,
    thresholds: Vec<Draft<ThresholdKeys>>,
    priorities: Vec<Draft<PriorityKeys>>,
    stragglers: Vec<Draft<StragglerKeys>>,
}

impl File {
    fn parse(text: RuleText) -> Result<Self, RuleError> {
        let text = &Arc::new(text);
        let at = |offset| TextPosition { text: Arc::clone(text), offset };

        // What the parser shows of the text is left out: settings hold passwords.
        let root = DeTable::parse(&text.text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            at(offset).fault(None, None, error.message().replace('\n', ", "))
        })?;

        let root = root.get_ref();

        let selected = match text.tables {
            RuleTables::All => [true; 5],
            RuleTables::Some { budget, rule } => [false, budget, rule, false, false],
        };

        let unknown = root.keys().find(|key| !KEYS.contains(&key.get_ref().as_ref()));
        if let Some(key) = unknown.filter(|_| text.tables == RuleTables::All) {
            let problem = unknown_key(key.get_ref(), KEYS);
            return Err(at(key.span().start).fault(None, Some(key.get_ref()), problem));
        }

        let given = |nth: usize| root.get(KEYS[nth]).filter(|_| selected[nth]);

        let list = |value: &Spanned<DeValue<'_>>| {
            let position = at(value.span().start);
            let items = values::list(value.get_ref());
            let items = items.map_err(|problem| position.fault(None, Some("include"), problem))?;
            Ok(items
                .into_iter()
                .map(move |value| LocatedValue { value, position: position.clone() })
                .collect())
        };

        let file = Self {
            includes: given(0).map(list).transpose()?.unwrap_or_default(),
            budgets: drafts(text, given(1), BUDGETS_MAX)?,
            thresholds: drafts(text, given(2), RULES_MAX)?,
            priorities: drafts(text, given(3), CONFIRMED_URGENT_MAX)?,
            stragglers: drafts(text, given(4), STRAGGLERS_MAX)?,
        };

        file.check_names()?;
        Ok(file)
    }

    fn check_names(&self) -> Result<(), RuleError> {
        let mut seen = BTreeMap::new();
        let alerting = names(&self.budgets).chain(names(&self.thresholds));
        let alerting = alerting.chain(names(&self.stragglers));

        for (kind, name) in alerting.chain(names(&self.priorities)) {
            let title = titled(kind, name.value.as_str());
            if RESERVED_RULE_NAMES.contains(&name.value.as_str()) {
                let problem = "is reserved for an event on the bus; choose another name";
                return Err(name.position.fault(title, Some("name"), problem));
            }

            if let Some(first) = seen.insert(&name.value, &name.position) {
                let problem = format!("is also in {first}; give one of them another name");
                return Err(name.position.fault(title, Some("name"), problem));
            }
        }

        Ok(())
    }
}

fn names<K: Keys>(
    drafts: &[Draft<K>],
) -> impl Iterator<Item = (&'static str, &LocatedValue<RuleName>)> {
    drafts.iter().map(|draft| (K::KIND, &draft.name))
}

fn drafts<K: Keys>(
    text: &Arc<RuleText>,
    tables: Option<&Spanned<DeValue<'_>>>,
    max: usize,
) -> Result<Vec<Draft<K>>, RuleError> {
    let Some(tables) = tables else { return Ok(Vec::new()) };
    let position = TextPosition { text: Arc::clone(text), offset: tables.span().start };
    let wrong = |problem| position.fault(None, Some(K::KIND), problem);
    let Some(tables) = tables.get_ref().as_array() else {
        return Err(wrong(format!("must be a list of tables; write [[{}]]", K::KIND)));
    };
    if tables.len() > max {
        return Err(wrong(format!("{} of them, more than {max}", tables.len())));
    }
    tables.iter().map(|table| Draft::read(&Table::open(text, K::KIND, table)?)).collect()
}

/// All files so far, laid over each other.
#[derive(Default)]
struct Layers {
    budgets: Vec<Draft<BudgetKeys>>,
    thresholds: Vec<Draft<ThresholdKeys>>,
    priorities: Vec<Draft<PriorityKeys>>,
    stragglers: Vec<Draft<StragglerKeys>>,
}

/// A name, and what has it.
struct NameUse<'d> {
    what: String,
    kind: &'static str,
    name: &'d LocatedValue<RuleName>,
}

impl Layers {
    fn take(&mut self, text: RuleText) -> Result<(), RuleError> {
        self.lay(File::parse(text)?);
        Ok(())
    }

    fn lay(&mut self, file: File) {
        overlay_all(&mut self.budgets, file.budgets);
        overlay_all(&mut self.thresholds, file.thresholds);
        overlay_all(&mut self.priorities, file.priorities);
        overlay_all(&mut self.stragglers, file.stragglers);
    }

    fn finish(self, time_scale: u32) -> Result<Rules, RuleError> {
        let budgets = build(&self.budgets, BUDGETS_MAX)?;
        let thresholds = build(&self.thresholds, RULES_MAX)?;
        let urgent = build(&self.priorities, CONFIRMED_URGENT_MAX)?;
        let stragglers = build(&self.stragglers, STRAGGLERS_MAX)?;
        let rules = Rules { budgets, thresholds, stragglers, urgent, time_scale };
        self.check_names(&rules)?;
        Ok(rules)
    }

    /// Budgets, the rules of their error budgets and all other rules share one namespace.
    fn check_names(&self, rules: &Rules) -> Result<(), RuleError> {
        let mut used = BTreeMap::new();
        let budgets: Vec<&Draft<BudgetKeys>> = enabled(&self.budgets).collect();

        for (budget, draft) in rules.budgets.iter().zip(&budgets) {
            for burn in budget.burn_rates(rules.time_scale) {
                let what = format!("a rule of the error budget of {:?}", budget.name.as_str());
                used.insert(burn.rule(budget), NameUse { what, ..NameUse::of(draft) });
            }
        }

        // Two budgets of one name are laid over each other, as are two of any other kind.
        let budgets = budgets.into_iter().map(NameUse::of);
        let thresholds = enabled(&self.thresholds).map(NameUse::of);
        let stragglers = enabled(&self.stragglers).map(NameUse::of);

        for name_use in budgets.chain(thresholds).chain(stragglers) {
            if let Some(other) = used.get(&name_use.name.value) {
                return Err(name_use.collision(other));
            }
            used.insert(name_use.name.value.clone(), name_use);
        }

        Ok(())
    }
}

impl<'d> NameUse<'d> {
    fn of<K: Keys>(draft: &'d Draft<K>) -> Self {
        Self { what: K::TITLE.to_owned(), kind: K::KIND, name: &draft.name }
    }

    /// Both have one name. The error points at the one that is not built in.
    fn collision(&self, other: &Self) -> RuleError {
        let problem =
            format!("is the name of {} as well as of {}; rename one", other.what, self.what);
        let of = if self.name.position.is_shipped() { other } else { self };
        let title = titled(of.kind, of.name.value.as_str());
        of.name.position.fault(title, Some("name"), problem)
    }
}

/// The enabled ones.
fn enabled<K: Keys>(drafts: &[Draft<K>]) -> impl Iterator<Item = &Draft<K>> {
    drafts.iter().filter(|draft| draft.about.is_enabled())
}

fn overlay_all<K: Keys>(below: &mut Vec<Draft<K>>, above: Vec<Draft<K>>) {
    for draft in above {
        let same = |known: &&mut Draft<K>| known.name.value == draft.name.value;
        match below.iter_mut().find(same) {
            Some(known) => known.overlay(draft),
            None => below.push(draft),
        }
    }
}

/// The enabled ones, built; disabled ones must be valid as well.
fn build<K: Keys>(drafts: &[Draft<K>], max: usize) -> Result<Vec<K::Rule>, RuleError> {
    let mut rules = Vec::new();
    for draft in drafts {
        let rule = K::build(draft)?;
        if !draft.about.is_enabled() {
            continue;
        }
        if rules.len() == max {
            return Err(draft.fault(None, format!("exceeds the limit of {max} in all files")));
        }
        rules.push(rule);
    }
    Ok(rules)
}
