//! The controllers that run.

use std::collections::BTreeSet;

/// The controllers selected by `--controllers`, with the syntax of kube-controller-manager: `*` selects all,
/// `name` adds one, `-name` removes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnabledControllers {
    all: bool,
    added: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl Default for EnabledControllers {
    fn default() -> Self {
        Self { all: true, added: BTreeSet::new(), removed: BTreeSet::new() }
    }
}

impl EnabledControllers {
    /// Parses a comma-separated list. `known` contains every controller.
    ///
    /// # Errors
    /// Returns an error for an unknown controller that lists the known ones.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, String> {
        let mut selection = Self { all: false, added: BTreeSet::new(), removed: BTreeSet::new() };
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let name = word.strip_prefix('-').unwrap_or(word);
            match (word, known.contains(&name)) {
                ("*", _) => selection.all = true,
                (_, false) => {
                    return Err(format!(
                        "unknown controller {name:?}; known controllers: {}",
                        known.join(", ")
                    ));
                }
                (_, true) if word.starts_with('-') => {
                    selection.removed.insert(name.into());
                }
                (_, true) => {
                    selection.added.insert(name.into());
                }
            }
        }
        Ok(selection)
    }

    /// Returns true if a controller runs.
    pub fn includes(&self, name: &str) -> bool {
        !self.removed.contains(name) && (self.all || self.added.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, runs: &[&str]) {
        let known = ["placement", "clusterset", "report"];
        let selection = EnabledControllers::parse(text, &known).unwrap();
        let included: Vec<_> = known.into_iter().filter(|name| selection.includes(name)).collect();
        assert_eq!(included, runs, "{text:?}");
    }

    #[test]
    fn controllers_are_chosen_as_kube_controller_manager_does() {
        check("*", &["placement", "clusterset", "report"]);
        check("*,-placement", &["clusterset", "report"]);
        check("placement, clusterset", &["placement", "clusterset"]);
        check("-report,*", &["placement", "clusterset"]);
        check("", &[]);
    }

    #[test]
    fn an_unknown_controller_is_named() {
        let error = EnabledControllers::parse("*,-placements", &["placement"]).unwrap_err();
        assert_eq!(error, "unknown controller \"placements\"; known controllers: placement");
    }
}
