//! All keys of a program.

use std::{collections::BTreeMap, sync::Arc};

use crate::{Alias, ConfigKey, closest_match};

/// The keys of a program, in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    keys: Vec<Arc<ConfigKey>>,
    variable_prefix: &'static str,
    /// Beginnings of variables with the prefix that are not keys.
    other_variables: &'static [&'static str],
}

// --- KeyTable ---

impl KeyTable {
    /// A table of these keys. Those of one section follow each other where the first one is.
    pub fn new(keys: impl IntoIterator<Item = ConfigKey>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().map(Arc::new).collect();
        let mut firsts: BTreeMap<String, usize> = BTreeMap::new();
        for (position, key) in keys.iter().enumerate() {
            for (end, _) in key.name().match_indices('.') {
                firsts.entry(key.name()[..end].to_owned()).or_insert(position);
            }
        }
        let positions: BTreeMap<String, Vec<usize>> = keys
            .iter()
            .enumerate()
            .map(|(position, key)| {
                let ends = key.name().match_indices('.');
                let sections = ends.map(|(end, _)| firsts[&key.name()[..end]]);
                (key.name().to_owned(), sections.chain([position]).collect())
            })
            .collect();
        keys.sort_by(|one, other| positions[one.name()].cmp(&positions[other.name()]));
        Self {
            keys,
            ..Self::default()
        }
    }

    /// With a variable for each key: the prefix, and the name in capitals with `_` for dots. Other variables with the prefix are
    /// errors if they look like one of these, unless they begin with one of `others`.
    #[must_use]
    pub fn with_variables(mut self, prefix: &'static str, others: &'static [&'static str]) -> Self {
        self.variable_prefix = prefix;
        self.other_variables = others;
        for key in &mut self.keys {
            let variable = format!("{prefix}{}", key.name().replace(['.', '-'], "_").to_uppercase());
            Arc::make_mut(key).variables.push(variable);
        }
        self
    }

    /// With other names of keys.
    ///
    /// # Panics
    ///
    /// If one is the name of a key that is not in the table.
    #[must_use]
    pub fn with_aliases(mut self, aliases: &[Alias]) -> Self {
        for alias in aliases {
            let found = self.keys.iter_mut().find(|key| key.name() == alias.target());
            let key = Arc::make_mut(found.expect("an alias is the name of a key of the table"));
            match alias {
                Alias::Key { name, .. } => key.add_alias(name),
                Alias::Flag { name, .. } => key.add_flag_alias(name),
                Alias::Variable { name, .. } => key.variables.insert(0, (*name).to_owned()),
            }
        }
        self
    }

    /// The keys for which there is an argument, with that argument.
    #[must_use]
    pub fn with_args<'a>(&self, arg: impl Fn(&str) -> Option<&'a clap::Arg>) -> Self {
        let keys = self.keys.iter().filter_map(|key| {
            let arg = arg(key.id())?;
            Some(Arc::new(key.with_arg(arg.clone())))
        });
        Self {
            keys: keys.collect(),
            ..*self
        }
    }

    /// All keys, in order.
    pub fn keys(&self) -> &[Arc<ConfigKey>] {
        &self.keys
    }

    /// The key that a name in a file means. A name of its own is stronger than a wildcard.
    pub fn find(&self, name: &str) -> Option<&Arc<ConfigKey>> {
        let matches_wildcard = |key: &ConfigKey| {
            let rest = key.prefix().and_then(|prefix| name.strip_prefix(prefix));
            rest.is_some_and(|rest| !rest.is_empty())
        };
        let exact = self.keys.iter().find(|key| key.is_called(name));
        exact.or_else(|| self.keys.iter().find(|key| matches_wildcard(key)))
    }

    /// The key of an argument with this clap id.
    pub fn find_by_id(&self, id: &str) -> Option<&Arc<ConfigKey>> {
        self.keys.iter().find(|key| key.id() == id)
    }

    /// Why a name in a file is unknown, with a suggestion.
    pub(crate) fn unknown_key_reason(&self, name: &str) -> String {
        let names = || self.keys.iter().map(|key| key.name());
        let section = format!("{name}.");
        let held: Vec<_> = names().filter_map(|known| known.strip_prefix(&section)).collect();
        if !held.is_empty() {
            return format!("is a section: it holds {}", held.join(", "));
        }
        let is_outer = |known: &&str| {
            name.strip_prefix(*known)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        if let Some(known) = names().find(is_outer) {
            return format!("no such key: {known} is a value and holds no keys");
        }
        let last = last_part(name);
        let aliases = self.keys.iter().flat_map(|key| key.aliases.iter().copied());
        let meant = closest_match(name, names().chain(aliases)).or_else(|| {
            // Only the section is wrong.
            let mut alike = names().filter(|known| last_part(known) == last);
            alike.next().filter(|_| alike.next().is_none())
        });
        match meant {
            Some(meant) => format!("no such key; did you mean {meant}?"),
            None => "no such key".to_owned(),
        }
    }

    /// Why an environment variable is invalid, if it looks like a setting and is none. Other variables are ignored.
    pub fn unknown_variable_reason(&self, name: &str) -> Option<String> {
        let rest = Some(self.variable_prefix)
            .filter(|prefix| !prefix.is_empty())
            .and_then(|prefix| name.strip_prefix(prefix))?;
        let known = || self.keys.iter().flat_map(|key| key.variables());
        if known().any(|known| known == name)
            || self.other_variables.iter().any(|other| name.starts_with(other))
        {
            return None;
        }
        let is_in_section = self.keys.iter().any(|key| {
            let section = key.name().split_once('.').map(|(section, _)| section);
            section.is_some_and(|section| rest.starts_with(&format!("{}_", section.to_uppercase())))
        });
        match closest_match(name, known().map(String::as_str)) {
            Some(meant) => Some(format!(
                "environment variable {name}: no such setting; did you mean {meant}?"
            )),
            None if is_in_section => Some(format!("environment variable {name}: no such setting")),
            None => None,
        }
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
