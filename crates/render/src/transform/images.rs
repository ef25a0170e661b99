//! `images`.

use regex::Regex;

use crate::budget::MemoryBudget;
use crate::config_object::ConfigObject;
use crate::decode::{Fields, Located, Result};
use crate::error::{Reason, RenderError};
use crate::fieldspec::{Create, set_scalar, visit};
use crate::kustomization::{FieldSpec, location_of};
use crate::pattern::compile_between;
use crate::resource::Resource;
use crate::transform::transformer::{Transformation, Transformer};
use object::Location;
use yaml::{Node, Tag, Value};

/// Changes the names, tags and digests of images.
pub(super) const IMAGE_TAG: Transformer =
    Transformer { kind: "ImageTagTransformer", read_fields, read_config };

fn read_fields(fields: &mut Fields<'_>) -> Result<Vec<Transformation>> {
    let mut images = fields.list("images", Image::read)?;
    images.extend(fields.list("imageTags", Image::read)?);
    let transformation = |image: Image| -> Transformation {
        Box::new(move |pass| {
            apply(&mut pass.accumulator.resmap, &image, &pass.config.images, &pass.build.source.budget)
        })
    };
    Ok(images.into_iter().map(transformation).collect())
}

fn read_config(config: &mut ConfigObject<'_>) -> Result<Transformation> {
    let image = config.fields.one("imageTag", Image::read)?.unwrap_or_default();
    let specs = config.field_specs()?;
    Ok(Box::new(move |pass| apply(&mut pass.accumulator.resmap, &image, &specs, &pass.build.source.budget)))
}

/// A change to an image.
#[derive(Clone, Debug, Default)]
struct Image {
    /// A pattern for the name of the image.
    name: String,
    new_name: String,
    new_tag: String,
    /// Text to append to the tag.
    tag_suffix: String,
    digest: String,
    location: Location,
}

impl Image {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let image = Self {
            name: fields.string("name")?,
            new_name: fields.string("newName")?,
            new_tag: fields.string("newTag")?,
            tag_suffix: fields.string("tagSuffix")?,
            digest: fields.string("digest")?,
            location: location_of(located),
        };
        fields.finish()?;
        Ok(image)
    }
}

/// Fields with lists of containers, anywhere in an object.
const CONTAINER_LISTS: [&str; 2] = ["containers", "initContainers"];

/// Changes one image in all objects except CRDs.
///
/// # Errors
/// Fails if the name is not a valid pattern or an image is not a string.
fn apply(
    resources: &mut [Resource],
    image: &Image,
    specs: &[FieldSpec],
    budget: &MemoryBudget<'_>,
) -> Result<()> {
    let change = ImageChange { image, matcher: Matcher::new(image)?, budget };
    for resource in resources.iter_mut().filter(|resource| resource.kind() != "CustomResourceDefinition") {
        change.containers(&mut resource.node)?;
        for spec in specs {
            visit(resource, spec, Create::Never, &mut |node| change.image(node))?;
        }
    }
    Ok(())
}

/// Matches images against the name of an image, which is a pattern.
enum Matcher {
    /// A name without special characters other than dots, which match any character.
    Simple(String),
    Pattern(Regex),
}

impl Matcher {
    fn new(image: &Image) -> Result<Self> {
        let is_simple = |c: char| c.is_ascii_alphanumeric() || "-_/.:".contains(c);
        if image.name.chars().all(is_simple) {
            return Ok(Self::Simple(image.name.clone()));
        }
        let pattern = compile_between("^", &image.name, "(:[a-zA-Z0-9_.{}-]*)?(@sha256:[a-zA-Z0-9_.{}-]*)?$");
        pattern.map(Self::Pattern).map_err(|reason| {
            let message = format!("{:?} is not a pattern of image names: {reason}", image.name);
            Box::new(RenderError::at(Reason::InvalidValue, &image.location, message).field("images"))
        })
    }

    fn matches(&self, written: &str) -> bool {
        match self {
            Self::Pattern(pattern) => pattern.is_match(written),
            Self::Simple(name) => {
                let mut rest = written.chars();
                let same = name
                    .chars()
                    .all(|wanted| rest.next().is_some_and(|c| c == wanted || (wanted == '.' && c != '\n')));
                same && is_tag_and_digest(rest.as_str())
            }
        }
    }
}

/// Returns true if a text is empty, `:tag`, `@sha256:digest` or both.
fn is_tag_and_digest(text: &str) -> bool {
    let allowed = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_.{}-".contains(c));
    let (tag, digest) = text.split_once("@sha256:").map_or((text, ""), |(tag, digest)| (tag, digest));
    (tag.is_empty() || tag.strip_prefix(':').is_some_and(allowed)) && allowed(digest)
}

/// An image change being applied.
struct ImageChange<'a> {
    image: &'a Image,
    matcher: Matcher,
    budget: &'a MemoryBudget<'a>,
}

impl ImageChange<'_> {
    fn containers(&self, node: &mut Node) -> Result<()> {
        match &mut node.value {
            Value::Scalar(_) => Ok(()),
            Value::List(items) => items.iter_mut().try_for_each(|item| self.containers(item)),
            Value::Map(map) => map.iter_mut().try_for_each(|(key, entry)| {
                self.containers(&mut entry.node)?;
                if CONTAINER_LISTS.contains(&key.as_str())
                    && let Value::List(containers) = &mut entry.node.value
                {
                    let images = containers.iter_mut().filter_map(|container| container.get_mut("image"));
                    return images.into_iter().try_for_each(|written| self.image(written));
                }
                Ok(())
            }),
        }
    }

    fn image(&self, node: &mut Node) -> Result<()> {
        let (line, kind) = (node.line, node.kind());
        let Some(written) = node.as_scalar() else {
            return Err(Box::new(
                RenderError::new(Reason::InvalidValue, "", format!("an image must be a string, not {kind}"))
                    .line(line),
            ));
        };
        if !self.matcher.matches(&written.text) {
            return Ok(());
        }
        let image = self.image;
        let texts = [&image.new_name, &image.new_tag, &image.tag_suffix, &image.digest];
        self.budget.spend(written.text.len() + texts.iter().map(|text| text.len()).sum::<usize>())?;
        let (name, mut tag, mut digest) = split(&written.text);
        let mut name = if image.new_name.is_empty() { name } else { image.new_name.clone() };
        match (image.new_tag.is_empty(), image.digest.is_empty()) {
            (false, false) => (tag, digest) = (image.new_tag.clone(), image.digest.clone()),
            (false, true) => (tag, digest) = (image.new_tag.clone(), String::new()),
            (true, false) => (tag, digest) = (String::new(), image.digest.clone()),
            (true, true) if !image.tag_suffix.is_empty() => {
                tag.push_str(&image.tag_suffix);
                digest = String::new();
            }
            (true, true) => {}
        }
        for (separator, part) in [(':', tag), ('@', digest)] {
            if !part.is_empty() {
                name.push(separator);
                name.push_str(&part);
            }
        }
        set_scalar(node, &name, Tag::Unsettled)
    }
}

/// Returns the name, tag and digest of an image. The port of a registry is part of the name.
fn split(image: &str) -> (String, String, String) {
    let path = image.find('/').filter(|at| *at > 0).unwrap_or(0);
    let (registry, rest) = image.split_at(path);
    let (rest, digest) = rest.split_once('@').unwrap_or((rest, ""));
    let (name, tag) = rest.split_once(':').unwrap_or((rest, ""));
    (format!("{registry}{name}"), tag.into(), digest.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_split_into_name_tag_and_digest() {
        for (image, name, tag, digest) in [
            ("nginx", "nginx", "", ""),
            ("nginx:1.2", "nginx", "1.2", ""),
            ("host:5000/a/b:1@sha256:x", "host:5000/a/b", "1", "sha256:x"),
            ("a/b@sha256:x", "a/b", "", "sha256:x"),
        ] {
            assert_eq!(split(image), (name.into(), tag.into(), digest.into()), "{image}");
        }
    }

    #[test]
    fn names_match_whole_images() {
        let matches = |name: &str, image: &str| {
            Matcher::new(&Image { name: name.into(), ..Image::default() }).unwrap().matches(image)
        };
        for (name, image, expected) in [
            ("nginx", "nginx:1.2", true),
            ("nginx", "nginx@sha256:abc", true),
            ("nginx", "nginx-extra", false),
            ("nginx", "docker.io/nginx", false),
            ("a.b/c", "aXb/c:1", true),
            (".*/nginx", "docker.io/nginx:1", true),
        ] {
            assert_eq!(matches(name, image), expected, "{name} {image}");
        }
    }
}
