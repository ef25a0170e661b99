//! Updates references to objects by name after prefixes, suffixes, hashes and namespaces changed the names.

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::MemoryBudget;
use crate::config::{NameReference, is_selected};
use crate::decode::Result;
use crate::error::{Reason, RenderError};
use crate::fieldspec::{Create, visit};
use crate::kustomization::FieldSpec;
use crate::resource::{DEFAULT_NAMESPACE, NOT_NAMESPACED, ResId, Resource, set_text};
use object::Gvk;
use object::Location;
use yaml::{Node, Scalar, Tag, Value};

/// An object that others may refer to, with its earlier identities.
struct Candidate {
    previous: Vec<ResId>,
    current: ResId,
    /// The namespace as written, which may be empty.
    namespace: String,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
    location: Location,
}

/// All objects, indexed by their earlier names.
struct Candidates {
    all: Vec<Candidate>,
    /// Indices by earlier name and current namespace.
    by_name: BTreeMap<(String, String), BTreeSet<usize>>,
    /// The original namespace, the current one, and the current one as written, of each object.
    namespaces: BTreeSet<[String; 3]>,
}

/// An object that refers to others.
struct Referrer {
    id: ResId,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
    role: Option<Gvk>,
    /// Namespaces of the service accounts in a role binding.
    subject_namespaces: Vec<String>,
}

/// Updates all references.
///
/// # Errors
/// Fails if a name is ambiguous, or if the field of a name has another type.
pub(crate) fn fix(
    resources: &mut [Resource],
    references: &[NameReference],
    budget: &MemoryBudget<'_>,
) -> Result<()> {
    if resources.iter().all(|resource| resource.previous.is_empty()) {
        return Ok(());
    }
    let candidates = Candidates::new(resources);
    let mut by_kind: BTreeMap<Gvk, Vec<(&Gvk, FieldSpec)>> = BTreeMap::new();
    for resource in resources.iter_mut() {
        let kind = resource.original_id().gvk;
        let specs = by_kind.entry(kind).or_insert_with_key(|kind| referring(kind, references));
        if specs.is_empty() {
            continue;
        }
        let referrer = Referrer::new(resource);
        for (target, spec) in specs {
            let lookup =
                Lookup { candidates: &candidates, referrer: &referrer, target, path: &spec.path, budget };
            visit(resource, spec, Create::Never, &mut |node| lookup.set(node))?;
        }
    }
    Ok(())
}

/// Returns the reference fields for objects of a kind, with the kinds that they refer to. The original kind of an
/// object selects the specification, which is applied to the object in its current state.
fn referring<'a>(kind: &Gvk, references: &'a [NameReference]) -> Vec<(&'a Gvk, FieldSpec)> {
    let mut found = Vec::new();
    for reference in references {
        let specs = reference.referrers.iter().filter(|spec| is_selected(kind, &spec.gvk));
        found.extend(specs.map(|spec| {
            let anywhere = FieldSpec { gvk: Gvk::default(), path: spec.path.clone(), create: spec.create };
            (&reference.gvk, anywhere)
        }));
    }
    found
}

impl Candidates {
    fn new(resources: &[Resource]) -> Self {
        let candidate = |resource: &Resource| Candidate {
            previous: resource.previous_ids().collect(),
            current: resource.id(),
            namespace: resource.namespace().into(),
            prefixes: resource.prefixes.clone(),
            suffixes: resource.suffixes.clone(),
            location: resource.location.clone(),
        };
        let all: Vec<Candidate> = resources.iter().map(candidate).collect();
        let mut by_name: BTreeMap<(String, String), BTreeSet<usize>> = BTreeMap::new();
        for (index, candidate) in all.iter().enumerate() {
            for id in &candidate.previous {
                let key = (id.name.clone(), candidate.current.namespace.clone());
                by_name.entry(key).or_default().insert(index);
            }
        }
        let namespaces = all.iter().map(|candidate| {
            let first = candidate.original_namespace();
            [first, &candidate.current.namespace, &candidate.namespace].map(str::to_owned)
        });
        Self { namespaces: namespaces.collect(), by_name, all }
    }

    /// Returns the objects that once had a name and that the referrer could mean.
    fn named(&self, name: &str, referrer: &Referrer) -> Vec<&Candidate> {
        let indices: BTreeSet<usize> = if referrer.is_cluster_scoped() {
            let named = self.by_name.range((name.to_owned(), String::new())..);
            named.take_while(|((had, _), _)| had == name).flat_map(|(_, indices)| indices).copied().collect()
        } else {
            let subjects = referrer.subject_namespaces.iter().map(String::as_str);
            let subjects = subjects.map(|it| if it.is_empty() { DEFAULT_NAMESPACE } else { it });
            let namespaces = subjects.chain([NOT_NAMESPACED, referrer.id.namespace.as_str()]);
            let key = |namespace: &str| (name.to_owned(), namespace.to_owned());
            namespaces.filter_map(|it| self.by_name.get(&key(it))).flatten().copied().collect()
        };
        indices.into_iter().filter_map(|index| self.all.get(index)).collect()
    }

    /// Returns true if an object that the referrer could mean was originally in a namespace.
    fn any_was_in(&self, namespace: &str, referrer: &Referrer) -> bool {
        let first = [namespace, "", ""].map(str::to_owned);
        let of_namespace = self.namespaces.range(first..).take_while(|[first, ..]| first == namespace);
        of_namespace.into_iter().any(|[_, current, written]| referrer.could_mean(current, written))
    }
}

impl Candidate {
    fn original_namespace(&self) -> &str {
        &self.previous.first().unwrap_or(&self.current).namespace
    }
}

impl Referrer {
    fn new(resource: &Resource) -> Self {
        let role_part = |field| {
            resource.node.get("roleRef").and_then(|role| role.get(field)).map(|node| node.text().to_owned())
        };
        let role = role_part("apiGroup").zip(role_part("kind")).map(|(group, kind)| Gvk {
            group,
            version: String::new(),
            kind,
        });
        let subjects = resource
            .node
            .get("subjects")
            .and_then(Node::as_list)
            .filter(|_| resource.kind() == "RoleBinding");
        let accounts = subjects
            .into_iter()
            .flatten()
            .filter(|s| s.get("kind").is_some_and(|kind| kind.text() == "ServiceAccount"));
        Self {
            id: resource.id(),
            prefixes: resource.prefixes.clone(),
            suffixes: resource.suffixes.clone(),
            role,
            subject_namespaces: accounts
                .filter_map(|subject| subject.get("namespace"))
                .map(|node| node.text().to_owned())
                .collect(),
        }
    }

    fn is_cluster_scoped(&self) -> bool {
        self.id.namespace == NOT_NAMESPACED
    }

    /// Returns true if the referrer could mean an object in a namespace.
    fn could_mean(&self, current: &str, written: &str) -> bool {
        self.is_cluster_scoped()
            || current == NOT_NAMESPACED
            || current == self.id.namespace
            || self.subject_namespaces.iter().any(|namespace| namespace == written)
    }

    /// Returns true if the name alone identifies this object for the referrer.
    fn is_near(&self, candidate: &Candidate) -> bool {
        self.is_cluster_scoped()
            || candidate.current.namespace == NOT_NAMESPACED
            || candidate.current.gvk.kind == "ServiceAccount"
            || candidate.current.namespace == self.id.namespace
    }

    /// Returns true if both have the same prefixes and suffixes, up to the length of the shorter list.
    fn has_same_affixes(&self, candidate: &Candidate, allow_empty: bool) -> bool {
        let same = |mine: &[String], theirs: &[String]| {
            (allow_empty && (mine.is_empty() || theirs.is_empty())) || same_ending(mine, theirs)
        };
        same(&self.prefixes, &candidate.prefixes) && same(&self.suffixes, &candidate.suffixes)
    }
}

fn same_ending(a: &[String], b: &[String]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.is_empty() { long.is_empty() } else { long.ends_with(short) }
}

/// The lookup of one kind of reference of one object.
struct Lookup<'a> {
    candidates: &'a Candidates,
    referrer: &'a Referrer,
    target: &'a Gvk,
    path: &'a str,
    budget: &'a MemoryBudget<'a>,
}

impl Lookup<'_> {
    fn set(&self, node: &mut Node) -> Result<()> {
        match &mut node.value {
            Value::Scalar(scalar) if scalar.tag == Tag::Null => Ok(()),
            Value::Scalar(scalar) => self.set_name(scalar),
            Value::Map(_) => self.set_name_and_namespace(node),
            Value::List(items) => items.iter_mut().try_for_each(|item| match &mut item.value {
                Value::Scalar(scalar) if scalar.tag == Tag::Null => Ok(()),
                Value::Scalar(scalar) => self.set_name(scalar),
                Value::Map(_) => self.set_name_and_namespace(item),
                Value::List(_) => {
                    let message = "a name or a map with a name is expected here, not a list";
                    Err(Box::new(RenderError::new(Reason::InvalidValue, "", message).line(item.line)))
                }
            }),
        }
    }

    fn set_name(&self, scalar: &mut Scalar) -> Result<()> {
        let same = |a: &Candidate, b: &Candidate| a.current.name == b.current.name;
        let near = self.candidates.named(&scalar.text, self.referrer);
        let Some(found) = self.select(near, &same, &scalar.text)? else { return Ok(()) };
        if found.current.name != scalar.text {
            self.budget.spend(found.current.name.len())?;
            let style = crate::resource::untagged(scalar.style);
            *scalar = Scalar { text: found.current.name.clone(), tag: Tag::Unsettled, style };
        }
        Ok(())
    }

    fn set_name_and_namespace(&self, node: &mut Node) -> Result<()> {
        let line = node.line;
        let Some(name) = node.get("name").map(|name| name.text().to_owned()) else {
            let message = "the map must have a name";
            return Err(Box::new(RenderError::new(Reason::InvalidValue, "", message).line(line)));
        };
        let mut named = self.candidates.named(&name, self.referrer);
        if let Some(namespace) = node.get("namespace").map(Node::text) {
            named = self.in_namespace(named, namespace);
        }
        let same =
            |a: &Candidate, b: &Candidate| a.current.name == b.current.name && a.namespace == b.namespace;
        let Some(found) = self.select(named, &same, &name)? else { return Ok(()) };
        if found.current.name == name && found.namespace.is_empty() {
            return Ok(());
        }
        self.budget.spend(found.current.name.len() + found.namespace.len())?;
        set_text(node, "name", &found.current.name);
        if !found.namespace.is_empty() {
            set_text(node, "namespace", &found.namespace);
        }
        Ok(())
    }

    /// Returns the candidates that were originally in a namespace. If there are none, returns the candidates that
    /// are in it now.
    fn in_namespace<'c>(&self, named: Vec<&'c Candidate>, namespace: &str) -> Vec<&'c Candidate> {
        let is_namespace = namespace != NOT_NAMESPACED;
        if is_namespace && self.candidates.any_was_in(namespace, self.referrer) {
            return named.into_iter().filter(|it| it.original_namespace() == namespace).collect();
        }
        named
            .into_iter()
            .filter(|candidate| is_namespace && candidate.current.namespace == namespace)
            .collect()
    }

    fn select<'c>(
        &self,
        named: Vec<&'c Candidate>,
        same: &dyn Fn(&Candidate, &Candidate) -> bool,
        name: &str,
    ) -> Result<Option<&'c Candidate>> {
        let role = self.referrer.role.as_ref().filter(|_| self.path.ends_with("roleRef/name"));
        let was =
            |candidate: &Candidate, gvk: &Gvk| candidate.previous.iter().any(|id| is_selected(&id.gvk, gvk));
        let mut found: Vec<&Candidate> = named;
        found.retain(|candidate| {
            self.referrer.could_mean(&candidate.current.namespace, &candidate.namespace)
                && was(candidate, self.target)
                && role.is_none_or(|role| was(candidate, role))
                && self.referrer.is_near(candidate)
        });
        if found.len() > 1 {
            found.retain(|candidate| self.referrer.has_same_affixes(candidate, true));
        }
        if found.len() > 1 {
            found.retain(|candidate| self.referrer.has_same_affixes(candidate, false));
        }
        match found.as_slice() {
            [] => Ok(None),
            [first, others @ ..] if others.iter().all(|other| same(first, other)) => Ok(Some(first)),
            several => {
                let ids: Vec<String> =
                    several.iter().map(|candidate| candidate.current.to_string()).collect();
                let mut error = RenderError::new(
                    Reason::Target,
                    "",
                    format!("{name:?} could mean any of {}", ids.join(", ")),
                );
                for candidate in several {
                    error = error.related(&candidate.location);
                }
                Err(Box::new(error.hint("use different names without prefixes and suffixes")))
            }
        }
    }
}
