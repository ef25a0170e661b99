//! String enumerations that keep unknown values, which later versions may add.

/// Declares a string enumeration that keeps unknown values in `Other`.
///
/// The first variant is the default. The schema lists the values, unless the type is declared as `pub open enum`.
/// Upstream does so for fields whose values only the controllers check.
macro_rules! open_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        open_enum! { @type $(#[$meta])* $name { $($(#[$doc])* $variant = $text,)+ } }
        open_enum! { @schema $name, { "type": "string", "enum": [$($text),+] } }
    };
    (
        $(#[$meta:meta])* pub open enum $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }
    ) => {
        open_enum! { @type $(#[$meta])* $name { $($(#[$doc])* $variant = $text,)+ } }
        open_enum! { @schema $name, { "type": "string" } }
    };
    (@schema $name:ident, $schema:tt) => {
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
    (@type $(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// A value this version does not know.
            Other(String),
        }

        impl $name {
            /// The known values, as they appear in objects.
            pub const VALUES: &[&str] = &[$($text),+];

            /// Returns the value as it appears in objects.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(value) => value,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                let first = [$(Self::$variant),+];
                let [first, ..] = first;
                first
            }
        }

        impl From<String> for $name {
            fn from(value: String) -> Self {
                match value.as_str() {
                    $($text => Self::$variant,)+
                    _ => Self::Other(value),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }
    };
}
