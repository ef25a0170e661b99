//! Packs the manifests of an add-on into as few works as an API server accepts.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object, ObjectRef};

/// The maximum size of the manifests in a work that OCM's webhook admits.
const ADMITTED: usize = 500 * 1024;
/// A work is filled only to 80 %, so that its manifests can grow in place.
const LIMIT: usize = ADMITTED * 8 / 10;
/// A growing manifest leaves its work only above 95 %. An object that moves to another work would belong to no
/// work between two reads by its agent.
const GROWN: usize = ADMITTED * 95 / 100;

/// The manifests of one work, in the order of the template.
pub(super) type Packed<'a> = BTreeMap<u32, Vec<&'a Object>>;

/// The reason that manifests cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// A manifest has no kind. The message is OCM's.
    #[error("got empty kind/version from object {0}")]
    Untyped(String),
    /// A manifest exceeds the maximum size of a work.
    #[error("{object} has {size} bytes; a work can have at most {LIMIT}")]
    TooLarge {
        /// The kind and name of the manifest.
        object: String,
        /// The size of the manifest.
        size: usize,
    },
}

/// Distributes manifests over works by index.
///
/// Manifests stay in their current work (`held`) as long as OCM's webhook admits it. The others go to the first
/// work with room, or else to the lowest free index. If two manifests define the same object, the later one
/// wins. Empty works are omitted.
///
/// # Errors
/// Fails if a manifest has no kind or exceeds the maximum size of a work.
pub(super) fn pack<'a>(
    manifests: &'a [Object],
    placed: &BTreeMap<u32, BTreeSet<ObjectRef>>,
) -> Result<Packed<'a>, PackError> {
    let last: BTreeMap<ObjectRef, usize> =
        manifests.iter().enumerate().map(|(i, manifest)| (manifest.reference(), i)).collect();
    let mut order: Vec<usize> = last.values().copied().collect();
    order.sort_unstable();
    let mut works: BTreeMap<u32, WorkContent> = BTreeMap::new();
    let mut unplaced = Vec::new();
    for i in order {
        let Some(manifest) = manifests.get(i) else { continue };
        let object = manifest.reference();
        if object.gvk.kind.is_empty() || object.gvk.version.is_empty() {
            return Err(PackError::Untyped(object.key.to_string()));
        }
        let size = size(manifest);
        if size >= LIMIT {
            return Err(PackError::TooLarge { object: object.to_string(), size });
        }
        let home = placed
            .iter()
            .find(|(i, objects)| objects.contains(&object) && size_with(&works, **i, size) < GROWN);
        match home {
            Some((index, _)) => place(&mut works, *index, i, size),
            None => unplaced.push((i, size)),
        }
    }
    for (i, size) in unplaced {
        let open = works.keys().copied().find(|index| size_with(&works, *index, size) < LIMIT);
        let index = open.or_else(|| (0..).find(|index| !works.contains_key(index))).unwrap_or_default();
        place(&mut works, index, i, size);
    }
    Ok(works.into_iter().map(|(index, work)| (index, in_order(manifests, work.manifests))).collect())
}

/// The manifests of a work, and their size.
#[derive(Default)]
struct WorkContent {
    manifests: Vec<usize>,
    size: usize,
}

fn size_with(works: &BTreeMap<u32, WorkContent>, index: u32, size: usize) -> usize {
    works.get(&index).map_or(0, |work| work.size) + size
}

fn place(works: &mut BTreeMap<u32, WorkContent>, index: u32, manifest: usize, size: usize) {
    let work = works.entry(index).or_default();
    work.manifests.push(manifest);
    work.size += size;
}

fn in_order(manifests: &[Object], mut order: Vec<usize>) -> Vec<&Object> {
    order.sort_unstable();
    order.iter().filter_map(|i| manifests.get(*i)).collect()
}

/// Returns the size of a manifest as counted by OCM: the size of its JSON in a protobuf `RawExtension`.
fn size(manifest: &Object) -> usize {
    let json = serde_json::to_string(manifest).map_or(0, |json| json.len());
    let varint = usize::try_from((usize::BITS - json.leading_zeros()).div_ceil(7).max(1)).unwrap_or(1);
    json + 1 + varint
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(name: &str, bytes: usize) -> Object {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": {"d": "x".repeat(bytes)}});
        Object::from_value(object).unwrap()
    }

    fn names(packed: &Packed<'_>) -> BTreeMap<u32, Vec<String>> {
        packed
            .iter()
            .map(|(i, objects)| (*i, objects.iter().map(|o| o.name().to_owned()).collect()))
            .collect()
    }

    fn placed(works: &[(u32, &[&str])]) -> BTreeMap<u32, BTreeSet<ObjectRef>> {
        works
            .iter()
            .map(|(i, names)| (*i, names.iter().map(|name| manifest(name, 0).reference()).collect()))
            .collect()
    }

    fn check(manifests: &[Object], works: &[(u32, &[&str])], want: &[(u32, &[&str])]) {
        let packed = names(&pack(manifests, &placed(works)).unwrap());
        let want =
            want.iter().map(|(i, names)| (*i, names.iter().map(|n| (*n).to_owned()).collect())).collect();
        assert_eq!(packed, want);
    }

    #[test]
    fn manifests_keep_the_order_of_the_template() {
        check(&[manifest("c", 9), manifest("a", 9000), manifest("b", 90)], &[], &[(0, &["c", "a", "b"])]);
    }

    #[test]
    fn manifests_stay_where_they_are() {
        let manifests = [manifest("a", 200_000), manifest("b", 200_000), manifest("c", 10)];
        check(&manifests, &[(0, &["b", "c"]), (2, &["a"])], &[(0, &["b", "c"]), (2, &["a"])]);
    }

    #[test]
    fn a_large_first_manifest_does_not_cause_an_empty_work() {
        check(&[manifest("a", LIMIT - 200), manifest("b", 1000)], &[], &[(0, &["a"]), (1, &["b"])]);
    }

    #[test]
    fn a_freed_index_is_used_once() {
        let manifests = [manifest("a", 300_000), manifest("b", 300_000), manifest("c", 300_000)];
        check(&manifests, &[(1, &["a"])], &[(0, &["b"]), (1, &["a"]), (2, &["c"])]);
    }

    #[test]
    fn manifests_that_grow_stay_in_a_work_that_ocm_admits() {
        let manifests = [manifest("a", 230_000), manifest("b", 230_000)];
        check(&manifests, &[(0, &["a", "b"])], &[(0, &["a", "b"])]);
        check(&manifests, &[], &[(0, &["a"]), (1, &["b"])]);
    }

    #[test]
    fn manifests_that_grow_move_out_of_a_full_work() {
        let manifests = [manifest("a", 250_000), manifest("b", 250_000)];
        check(&manifests, &[(0, &["a", "b"])], &[(0, &["a"]), (1, &["b"])]);
    }

    #[test]
    fn the_later_of_two_manifests_of_one_object_wins() {
        let manifests = [manifest("a", 1), manifest("b", 1), manifest("a", 2)];
        let packed = pack(&manifests, &BTreeMap::new()).unwrap();
        assert_eq!(packed[&0], [&manifests[1], &manifests[2]]);
    }

    #[test]
    fn a_manifest_that_no_work_can_carry_is_named() {
        let error = pack(&[manifest("a", LIMIT)], &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().starts_with("ConfigMap n/a has 40"), "{error}");
        let untyped = Object::from_value(json!({"metadata": {"name": "x"}})).unwrap();
        assert_eq!(
            pack(&[untyped], &BTreeMap::new()).unwrap_err().to_string(),
            "got empty kind/version from object x"
        );
    }
}
