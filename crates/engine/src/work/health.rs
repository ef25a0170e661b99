//! Object health by condition rules that the hub adds to works and agents evaluate.
//!
//! OCM's agents support these rules, too. A work gets them with its next content, so an upgrade of the hub does
//! not rewrite works. See docs/design/rollout-health.md.

use std::borrow::Borrow;

use sha2::{Digest as _, Sha256};

use super::manifest::applies;
use crate::health;
use crate::resource::identifier;
use api::names::work_conditions::{DEGRADED, PROGRESSING};
use api::work::v1::{
    ConditionRule, ConditionRuleType, ManifestConfigOption, ManifestResourceMeta, ResourceIdentifier,
};
use object::{Object, hex};

/// The message of the hub's rules, which identifies them if their expressions change. Wheelwright's agents
/// report a message from [`health::ObjectHealth`] instead.
const MARK: &str = "by the hub's health rule for this kind";

/// Digests of the expressions in rules without [`MARK`], from hubs before 0.2. Live works contain them until
/// their next content.
const BEFORE_MARK: [&str; 8] = [
    "9fe3eb580df53367",
    "41a07957470cf3e1",
    "80855e3b2606dfa2",
    "295ece5682ff3658",
    "72eb2aa8aba5d70d",
    "a6e27dfcb1b6b265",
    "e983672b9478f949",
    "4a2c84ba790ca09e",
];

/// Returns true if the hub added a rule.
pub(crate) fn is_ours(rule: &ConditionRule) -> bool {
    let ConditionRule { condition: _, r#type, cel_expressions, message, message_expression, unknown: _ } =
        rule;
    match (r#type, cel_expressions.as_slice(), message.as_str()) {
        (ConditionRuleType::Cel, [_], MARK) => true,
        (ConditionRuleType::Cel, [expression], "") if message_expression.is_empty() => {
            let digest = hex(Sha256::digest(expression));
            BEFORE_MARK.iter().any(|known| digest.starts_with(known))
        }
        _ => false,
    }
}

/// Returns the rules for an object; empty if the object is healthy as soon as it exists.
fn rules(manifest: &Object) -> Vec<ConditionRule> {
    let Some(row) = health::row(manifest) else { return Vec::new() };
    let rule = |(condition, expression): (&str, String)| ConditionRule {
        condition: condition.to_owned(),
        r#type: ConditionRuleType::Cel,
        cel_expressions: vec![expression],
        message: MARK.to_owned(),
        ..ConditionRule::default()
    };
    let degraded = row.failed().map(|expression| (DEGRADED, expression));
    [Some((PROGRESSING, row.not_healthy())), degraded].into_iter().flatten().map(rule).collect()
}

/// Adds rules for objects whose progress is not covered by the work's author.
///
/// Each object gets an entry with our rules and the author's other rules, because agents read all rules from the
/// first entry that has some. The new entries come first. OCM's agents read the scrape type from the last
/// matching entry, which remains the author's.
pub(crate) fn add_rules(
    configs: &mut Vec<ManifestConfigOption>,
    manifests: impl Iterator<Item: Borrow<Object>>,
) {
    let entry = |manifest: &Object| {
        let ours = rules(manifest);
        let named = identifier(manifest);
        let meta = meta(&named);
        let judges = |one: &&ManifestConfigOption| {
            !one.condition_rules.is_empty() && applies(&one.resource_identifier, &meta)
        };
        let theirs = configs.iter().find(judges).map(|one| one.condition_rules.clone()).unwrap_or_default();
        if ours.is_empty() || theirs.iter().any(|rule| rule.condition == PROGRESSING) {
            return None;
        }
        let missing =
            ours.into_iter().filter(|rule| theirs.iter().all(|one| one.condition != rule.condition));
        let condition_rules = theirs.iter().cloned().chain(missing).collect();
        Some(ManifestConfigOption {
            resource_identifier: named,
            condition_rules,
            ..ManifestConfigOption::default()
        })
    };
    let entries: Vec<_> = manifests.filter_map(|manifest| entry(manifest.borrow())).collect();
    configs.splice(0..0, entries);
}

fn meta(named: &ResourceIdentifier) -> ManifestResourceMeta {
    let ResourceIdentifier { group, resource, name, namespace, unknown: _ } = named.clone();
    ManifestResourceMeta { group, resource, name, namespace, ..ManifestResourceMeta::default() }
}

/// Removes the rules from [`add_rules`].
pub(crate) fn without_rules(configs: &mut Vec<ManifestConfigOption>) {
    configs.retain(|config| !config.condition_rules.iter().any(is_ours));
}

/// Returns true if a work has rules from [`add_rules`].
pub(crate) fn has_rules(configs: &[ManifestConfigOption]) -> bool {
    configs.iter().flat_map(|config| &config.condition_rules).any(is_ours)
}

/// Returns true if the author of a work has a rule for a condition.
pub(crate) fn has_authors_rule(configs: &[ManifestConfigOption], condition: &str) -> bool {
    let mut rules = configs.iter().flat_map(|config| &config.condition_rules);
    rules.any(|rule| rule.condition == condition && !is_ours(rule))
}

#[cfg(test)]
#[path = "tests/health.rs"]
mod tests;
