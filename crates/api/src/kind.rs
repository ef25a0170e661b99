//! Declares Kubernetes kinds as structs.
//!
//! The derive macro of kube is not used. It drops unknown fields of the root, and requires a `spec` even if
//! upstream has none. It also marks every optional field `nullable`, so API servers would store an explicit `null`
//! of a Go client instead of dropping it.

use std::fmt::Debug;
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Unknown;

/// A column of `kubectl get`: title, type and path of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column(pub &'static str, pub &'static str, pub &'static str);

/// A kind whose definition can be installed.
pub trait Crd: kube_core::Resource<DynamicType = ()> {
    /// Short names for kubectl.
    const SHORT_NAMES: &'static [&'static str];
    /// Columns that `kubectl get` prints.
    const COLUMNS: &'static [Column];
    /// True if objects have a namespace.
    const NAMESPACED: bool;
    /// True if `status` is a subresource.
    const HAS_STATUS: bool;

    /// Returns the OpenAPI schema of the whole object.
    fn schema() -> serde_json::Value;
}

/// `apiVersion`, `kind` and the unknown fields at the root of an object of kind `K`.
#[derive(Clone, Debug, PartialEq)]
pub struct Root<K> {
    /// Root fields that the type does not know.
    pub unknown: Unknown,
    kind: PhantomData<fn() -> K>,
}

impl<K> Root<K> {
    /// Returns the root of another kind with the same unknown fields.
    pub fn cast<L>(self) -> Root<L> {
        Root { unknown: self.unknown, kind: PhantomData }
    }
}

impl<K> Default for Root<K> {
    fn default() -> Self {
        Self { unknown: Unknown::new(), kind: PhantomData }
    }
}

impl<K: kube_core::Resource<DynamicType = ()>> Serialize for Root<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let type_meta = [
            ("apiVersion", K::api_version(&()).into_owned().into()),
            ("kind", K::kind(&()).into_owned().into()),
        ];
        let fields =
            type_meta.iter().map(|(k, v)| (*k, v)).chain(self.unknown.iter().map(|(k, v)| (k.as_str(), v)));
        serializer.collect_map::<_, &serde_json::Value, _>(fields)
    }
}

impl<'de, K> Deserialize<'de> for Root<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut unknown = Unknown::deserialize(deserializer)?;
        unknown.retain(|field, _| field != "apiVersion" && field != "kind");
        Ok(Self { unknown, kind: PhantomData })
    }
}

/// Declares a kind: the struct at the root, its names, and the properties of its definition.
macro_rules! kind {
    (
        $(#[doc = $doc:literal])+
        $name:ident {
            group: $group:expr,
            version: $version:literal,
            plural: $plural:literal,
            scope: $scope:ident,
            $(spec $(($required:ident))?: $spec:ty,)?
            $(status $(($inline:ident))?: $status:ty,)?
            $(short: [$($short:literal),*],)?
            $(columns: [$(($title:literal, $type:literal, $path:literal)),* $(,)?],)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            /// Standard object metadata.
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $(
                /// The desired state.
                #[serde(default)]
                pub spec: $spec,
            )?
            $(
                /// The observed state.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub status: Option<$status>,
            )?
            /// `apiVersion`, `kind`, and root fields that this version does not know.
            #[serde(flatten)]
            pub root: $crate::Root<$name>,
        }

        impl kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = kind!(@scope $scope);

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl $crate::Crd for $name {
            const SHORT_NAMES: &'static [&'static str] = &[$($($short),*)?];
            const COLUMNS: &'static [$crate::Column] = &[$($($crate::Column($title, $type, $path)),*)?];
            const NAMESPACED: bool = kind!(@namespaced $scope);
            const HAS_STATUS: bool = kind!(@subresource $($status $(, $inline)?)?);

            fn schema() -> serde_json::Value {
                let parts = [
                    $(("spec", $crate::schema::of::<$spec>(), kind!(@has $($required)?)),)?
                    $(("status", $crate::schema::of::<$status>(), false),)?
                ];
                $crate::schema::root(concat!($($doc),+), parts)
            }
        }
    };
    (@scope Cluster) => { k8s_openapi::ClusterResourceScope };
    (@scope Namespaced) => { k8s_openapi::NamespaceResourceScope };
    (@namespaced Cluster) => { false };
    (@namespaced Namespaced) => { true };
    // A status without a subresource is written together with the object.
    (@subresource) => { false };
    (@subresource $status:ty) => { true };
    (@subresource $status:ty, inline) => { false };
    (@has) => { false };
    (@has $($anything:tt)+) => { true };
}
