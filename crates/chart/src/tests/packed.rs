//! Packed charts and subcharts.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use super::{CHART, request};
use crate::error::Error;
use crate::load::{MAX_BYTES, Tree, unpack};
use crate::render::{Request, render};

const PARENT: &str =
    "{name: p, version: 0.1.0, apiVersion: v2, dependencies: [{name: sub, version: 0.1.0, alias: other}]}";
const SUB: &str = "{name: sub, version: 0.1.0, apiVersion: v2}";
const TEMPLATE: &str = "x: {{ .Values.a }} {{ .Files.Get \"f\" }} {{ .Files.Get \".helmignore\" | quote }}";

/// An entry of a tar archive. The name may be invalid.
fn append(to: &mut Builder<GzEncoder<Vec<u8>>>, name: &str, kind: EntryType, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_cksum();
    to.append(&header, content).unwrap();
}

fn archive(fill: impl FnOnce(&mut Builder<GzEncoder<Vec<u8>>>)) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    fill(&mut builder);
    builder.into_inner().unwrap().finish().unwrap()
}

fn packed(directory: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    archive(|builder| {
        for (path, bytes) in files {
            append(builder, &format!("{directory}/{path}"), EntryType::Regular, bytes);
        }
    })
}

fn tree(files: &[(&str, &[u8])]) -> Tree {
    files.iter().map(|(path, bytes)| ((*path).to_owned(), (*bytes).into())).collect()
}

fn sub() -> Vec<(&'static str, &'static [u8])> {
    vec![
        ("Chart.yaml", SUB.as_bytes()),
        (".helmignore", b"f\n"),
        ("values.yaml", b"\xef\xbb\xbfa: 1\n"),
        ("f", b"file"),
        ("templates/t.yaml", TEMPLATE.as_bytes()),
    ]
}

fn with_subchart(name: &str, bytes: &[u8]) -> Result<String, Error> {
    let path = format!("charts/{name}");
    let files = tree(&[("Chart.yaml", PARENT.as_bytes()), ("values.yaml", b"other: {a: 2}"), (&path, bytes)]);
    Ok(render(&request(&files))?.text())
}

#[test]
fn a_packed_subchart_renders_like_its_directory() {
    let mut files = vec![("Chart.yaml", PARENT.as_bytes()), ("values.yaml", b"other: {a: 2}".as_slice())];
    let sub = sub();
    let paths: Vec<_> = sub.iter().map(|(path, _)| format!("charts/sub/{path}")).collect();
    files.extend(paths.iter().zip(&sub).map(|(path, (_, bytes))| (path.as_str(), *bytes)));
    let expected = render(&request(&tree(&files))).unwrap().text();
    assert!(expected.contains("# Source: p/charts/other/templates/t.yaml\nx: 2 file \"f\\n\""), "{expected}");
    assert_eq!(with_subchart("sub-0.1.0.tgz", &packed("sub", &sub)).unwrap(), expected);
    assert_eq!(with_subchart("renamed.tgz", &packed("sub", &sub)).unwrap(), expected);
}

#[test]
fn archives_within_archives_are_unpacked() {
    let inner = packed("sub", &sub());
    let middle = "{name: sub, version: 0.1.0, apiVersion: v2, dependencies: [{name: sub, version: 0.1.0}]}";
    let outer = packed("sub", &[("Chart.yaml", middle.as_bytes()), ("charts/sub-0.1.0.tgz", &inner)]);
    let text = with_subchart("sub.tgz", &outer).unwrap();
    assert!(text.contains("# Source: p/charts/other/charts/sub/templates/t.yaml\nx: 1 file"), "{text}");
}

#[test]
fn only_a_directory_applies_its_ignore_rules() {
    let files = unpack(&packed("sub", &sub())).unwrap();
    let text = |is_packed| render(&Request { is_packed, ..request(&files) }).unwrap().text();
    assert!(text(true).contains("x: 1 file "), "{}", text(true));
    assert!(text(false).contains("x: 1  "), "{}", text(false));
}

#[test]
fn directories_and_unused_headers_of_an_archive_are_skipped() {
    let bytes = archive(|builder| {
        append(builder, "pax_global_header", EntryType::XGlobalHeader, b"13 comment=x\n");
        append(builder, "c/", EntryType::Directory, b"");
        append(builder, "c/templates/", EntryType::Regular, b"");
        append(builder, "c\\Chart.yaml", EntryType::Regular, CHART.as_bytes());
        let name = format!("c/{}", "long/".repeat(60) + "name");
        builder.append_data(&mut header(3), name, b"abc".as_slice()).unwrap();
    });
    let files = unpack(&bytes).unwrap();
    let sizes: Vec<_> = files.iter().map(|(path, bytes)| (path.len(), bytes.len())).collect();
    assert_eq!(sizes, [("Chart.yaml".len(), CHART.len()), (304, 3)]);
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(size);
    header
}

#[test]
fn paths_outside_the_chart_and_entries_that_are_not_files_are_refused() {
    for name in
        ["Chart.yaml", "/etc/passwd", "c/../../x", "c//etc/passwd", "c/./x", "..\\..\\x", "c/c:/x", "../x/.."]
    {
        let error = unpack(&archive(|builder| append(builder, name, EntryType::Regular, b"x"))).unwrap_err();
        assert!(error.message.ends_with("is not a path in the directory of a chart"), "{name}: {error}");
    }
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Block, EntryType::Char] {
        let error = unpack(&archive(|builder| append(builder, "c/a", kind, b""))).unwrap_err();
        assert_eq!(error.message, "\"c/a\" is neither a file nor a directory", "{kind:?}");
    }
    let error = unpack(&packed("c", &[("a", b"1"), ("b", b""), ("a", b"2")])).unwrap_err();
    assert_eq!(error.message, "\"c/a\" is in the archive twice");
    let error = unpack(&archive(|builder| append(builder, "c/", EntryType::Directory, b""))).unwrap_err();
    assert_eq!(error.message, "no files in chart archive");
}

#[test]
fn a_damaged_archive_is_refused_with_its_name() {
    let whole = packed("sub", &sub());
    for end in [whole.len() - 1, whole.len() / 2, 20, 3] {
        let error = with_subchart("sub.tgz", &whole[..end]).unwrap_err();
        assert!(error.message.contains("subchart sub.tgz in p: the archive is damaged: "), "{end}: {error}");
        assert_eq!((error.file.as_deref(), error.line), (Some("charts/sub.tgz"), None), "{end}");
    }
    let mut wrong_checksum = whole.clone();
    let at = whole.len() - 8;
    wrong_checksum[at] ^= 1;
    for damaged in [wrong_checksum, [whole.as_slice(), b"more"].concat()] {
        let error = with_subchart("sub.tgz", &damaged).unwrap_err();
        assert!(error.message.contains("the archive is damaged: "), "{error}");
    }
    let error = with_subchart("sub.tgz", b"version https://git-lfs.github.com/spec/v1\n").unwrap_err();
    assert!(error.message.ends_with("the file is not a gzip archive"), "{error}");
    let mut short = GzEncoder::new(Vec::new(), Compression::fast());
    let mut header = header(600);
    header.set_path("sub/Chart.yaml").unwrap();
    header.set_cksum();
    short.write_all(header.as_bytes()).unwrap();
    short.write_all(b"name: sub").unwrap();
    let error = with_subchart("sub.tgz", &short.finish().unwrap()).unwrap_err();
    assert!(error.message.contains("the archive is damaged: "), "{error}");
}

#[test]
fn an_error_in_a_subchart_names_its_file() {
    let files = [("Chart.yaml", SUB.as_bytes()), ("values.yaml", b"\xff".as_slice())];
    let error = with_subchart("sub.tgz", &packed("sub", &files)).unwrap_err();
    assert_eq!(error.file.as_deref(), Some("charts/sub.tgz"));
    let error = with_subchart("sub/values.yaml", b"\xff").unwrap_err();
    assert_eq!(error.file, None, "{error}: Chart.yaml is missing");
    let files = tree(&[
        ("Chart.yaml", PARENT.as_bytes()),
        ("charts/sub/Chart.yaml", SUB.as_bytes()),
        ("charts/sub/values.yaml", b"\xff"),
    ]);
    let error = render(&request(&files)).unwrap_err();
    assert_eq!(error.file.as_deref(), Some("charts/sub/values.yaml"));
}

#[test]
fn archives_that_unpack_to_too_much_are_refused() {
    let zeros = vec![0; MAX_BYTES / 2];
    let half = packed("sub", &[("Chart.yaml", SUB.as_bytes()), ("zeros", &zeros)]);
    assert!(half.len() < MAX_BYTES / 100, "{}", half.len());
    let two = packed("sub", &[("a", &zeros), ("b", &zeros)]);
    let many = archive(|builder| {
        (0..=10_000).for_each(|n| append(builder, &format!("c/{n}"), EntryType::Regular, b""));
    });
    let mut lie = header(u64::MAX / 2);
    lie.set_path("c/a").unwrap();
    lie.set_cksum();
    let lie = archive(|builder| builder.get_mut().write_all(lie.as_bytes()).unwrap());
    let mut after_the_end = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    append(&mut after_the_end, "c/Chart.yaml", EntryType::Regular, CHART.as_bytes());
    after_the_end.finish().unwrap();
    let mut after_the_end = after_the_end.into_inner().unwrap();
    after_the_end.write_all(&zeros).unwrap();
    after_the_end.write_all(&zeros).unwrap();
    let after_the_end = after_the_end.finish().unwrap();
    let long = archive(|builder| {
        let name = format!("c/{}", "long/".repeat(300));
        builder.append_data(&mut header(0), name + "x", b"".as_slice()).unwrap();
    });
    for (bytes, budget) in
        [(&two, "files"), (&many, "files"), (&lie, "files"), (&after_the_end, "files"), (&long, "path")]
    {
        let error = with_subchart("sub.tgz", bytes).unwrap_err();
        assert_eq!(error.budget, Some(budget), "{error}");
        assert_eq!(error.file.as_deref(), Some("charts/sub.tgz"), "{error}");
    }
    // Two subcharts share the limit.
    let files = tree(&[("Chart.yaml", SUB.as_bytes()), ("charts/a.tgz", &half), ("charts/b.tgz", &half)]);
    let error = render(&request(&files)).unwrap_err();
    assert_eq!((error.budget, error.file.as_deref()), (Some("files"), Some("charts/b.tgz")), "{error}");
}

#[test]
fn the_content_of_an_archive_counts_as_work() {
    let zeros = vec![0; 1 << 20];
    let bytes = packed("sub", &[("Chart.yaml", SUB.as_bytes()), ("zeros", &zeros)]);
    let files = tree(&[("Chart.yaml", PARENT.as_bytes()), ("charts/sub.tgz", &bytes)]);
    assert!(render(&request(&files)).unwrap().work.bytes > 1 << 20);
}
