use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use super::*;
use object::tree::TreeEntry;

const LIMITS: TreeLimits =
    TreeLimits { entries: 9, files: 4, file_bytes: 1 << 10, total_bytes: 8 << 10, depth: 2, path_bytes: 200 };

fn gzip(tar: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(tar).unwrap();
    encoder.finish().unwrap()
}

/// The type of an entry, its path, and its content or the target of the link.
type TestEntry<'a> = (EntryType, &'a str, &'a [u8]);

/// Returns an archive of entries.
fn tar(entries: &[TestEntry<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, path, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        // The crate itself refuses paths that leave the root.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        let content: &[u8] = match kind {
            EntryType::Symlink | EntryType::Link => {
                header.as_mut_bytes()[157..157 + content.len()].copy_from_slice(content);
                &[]
            }
            _ => content,
        };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Returns an extended header of POSIX with one record, which has its own length in three digits.
fn pax(key: &str, value: &str) -> String {
    format!("{:03} {key}={value}\n", key.len() + value.len() + 6)
}

fn file<'a>(path: &'a str, content: &'a [u8]) -> TestEntry<'a> {
    (EntryType::Regular, path, content)
}

fn unpacked(entries: &[TestEntry<'_>]) -> Result<FileTree, String> {
    unpack(&gzip(&tar(entries)), &LIMITS).map_err(|error| error.to_string())
}

#[test]
fn an_archive_has_the_same_entries_as_a_commit() {
    let long = format!("path/{}", "x".repeat(150));
    let extended = pax("path", &long) + &pax("comment", "ignored");
    let (gnu, target) = (format!("{}\0", long.replace('x', "y")), "t".repeat(120));
    let found = unpacked(&[
        (EntryType::XGlobalHeader, "global", b"12 path=a/b\n"),
        (EntryType::Directory, "./", b""),
        file("./a", b"1"),
        (EntryType::XHeader, "pax", extended.as_bytes()),
        file("short", b"2"),
        (EntryType::GNULongName, "gnu", gnu.as_bytes()),
        (EntryType::GNULongLink, "gnu", target.as_bytes()),
        (EntryType::Symlink, "short", b"short"),
        file("A", &[b'3'; 1025]),
    ]);
    let found = found.unwrap();
    let entries: Vec<_> = found.below("").map(|(path, entry)| (path.to_owned(), entry.clone())).collect();
    let content = |text: &[u8]| TreeEntry::File(text.into());
    let expected = [
        ("A".to_owned(), TreeEntry::Large { limit: 1 << 10 }),
        ("a".to_owned(), content(b"1")),
        (long.clone(), content(b"2")),
        (long.replace('x', "y"), TreeEntry::Link(target)),
    ];
    assert_eq!(entries, expected);
    assert_eq!(found.collisions(), [Collision { first: "A".into(), second: "a".into() }]);
}

#[test]
fn what_no_commit_could_have_is_refused_by_name() {
    let (long, size) = (pax("path", &"x".repeat(201)), pax("size", "9"));
    let cases: [(&[TestEntry<'_>], &str); 14] = [
        (&[file("../a", b"")], "cannot read ../a: it is not a path below the root"),
        (&[file("a/../../b", b"")], "cannot read a/../../b"),
        (&[file("/etc/passwd", b"")], "cannot read /etc/passwd"),
        (&[file(".git/config", b"")], "cannot read .git/config"),
        (&[file("a//b", b"")], "cannot read a//b"),
        (&[file("a", b""), file("./a", b"")], "cannot read a: it is in the archive twice"),
        (&[file("a", b""), file("a/b", b"")], "cannot read a/b: it is below a file or link"),
        (
            &[(EntryType::Symlink, "a", b"/etc"), file("a/b", b"")],
            "cannot read a/b: it is below a file or link",
        ),
        (&[(EntryType::Link, "a", b"b")], "cannot read a: it is neither a file, a symbolic link"),
        (&[(EntryType::Block, "a", b"")], "cannot read a: it is neither a file"),
        (&[file("a/b/c/d", b"")], "more than 2 directories inside each other"),
        (
            &[(EntryType::XHeader, "pax", long.as_bytes()), file("a", b"")],
            "its path is longer than 200 bytes",
        ),
        (&[(EntryType::XHeader, "pax", size.as_bytes()), file("a", b"")], "more than 8 GiB"),
        (
            &[file("a", b""), file("b", b""), file("c", b""), file("d", b""), file("e", b"")],
            "more than 4 files",
        ),
    ];
    for (entries, expected) in cases {
        let refused = unpacked(entries).unwrap_err();
        assert!(refused.contains(expected), "{refused}: {expected}");
    }
}

#[test]
fn an_archive_has_limits_before_it_is_in_memory() {
    let limits = TreeLimits { total_bytes: 40 << 10, ..LIMITS };
    let refused = |tar: &[u8]| unpack(&gzip(tar), &limits).unwrap_err().to_string();
    let header = tar(&[(EntryType::GNULongName, "x", &[b'x'; 17 << 10]), file("a", b"")]);
    assert_eq!(refused(&header), "a header of the archive has more than 16384 bytes");
    let directories: Vec<_> = (0..10).map(|_| (EntryType::Directory, "a", b"".as_slice())).collect();
    assert_eq!(refused(&tar(&directories)), "the archive has more than 9 entries");
    let files = [file("a", &[0; 1000]), file("b", &[0; 1000]), file("c", &[0; 1000])];
    let small = TreeLimits { total_bytes: 2 << 10, ..LIMITS };
    let total = unpack(&gzip(&tar(&files)), &small).unwrap_err().to_string();
    assert_eq!(total, "the files of the archive are larger than 0 MiB in total");
    let bomb = tar(&[file("a", &[0; 90 << 10])]);
    assert_eq!(refused(&bomb), "the archive has more than 0 MiB when unpacked");
}

#[test]
fn a_damaged_archive_is_refused() {
    let packed = gzip(&tar(&[file("a", b"1"), file("b", b"2")]));
    for length in [0, 5, packed.len() / 2, packed.len() - 4] {
        assert!(unpack(&packed[..length], &LIMITS).is_err(), "{length}");
    }
    let mut damaged = packed.clone();
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 1;
    let refused = unpack(&damaged, &LIMITS).unwrap_err().to_string();
    assert!(refused.starts_with("the archive is damaged"), "{refused}");
    assert!(unpack(&packed, &LIMITS).is_ok());
}
