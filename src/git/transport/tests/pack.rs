use std::io::Write as _;

use flate2::{Compression, write::ZlibEncoder};

use super::*;
use crate::fuzz::Target;

/// Returns a git server's response with a pack. Each object is a header and compressed content.
fn answer(objects: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend(u32::try_from(objects.len()).unwrap().to_be_bytes());
    for (head, content) in objects {
        pack.extend_from_slice(head);
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
        packed.write_all(content).unwrap();
        pack.extend(packed.finish().unwrap());
    }
    pack.extend([0; 20]);
    let mut answer = b"0008NAK\n".to_vec();
    for part in pack.chunks(40) {
        answer.extend(format!("{:04x}\x01", part.len() + 5).bytes());
        answer.extend_from_slice(part);
    }
    answer.extend(b"000cprogress0000");
    answer
}

#[test]
fn lines_of_the_boundary_are_passed_on_without_a_line_feed() {
    let line = |text: String| format!("{:04x}{text}", text.len() + 4);
    let with = |end: &str| {
        let lines = ["shallow ", "unshallow "].map(|word| line(format!("{word}{}{end}", "7".repeat(40))));
        [lines.concat().as_bytes(), b"0000", &answer(&[])].concat()
    };
    for end in ["", "\n"] {
        assert_eq!(PackReader::new().take(&with(end)), Ok(with("")));
    }
}

#[test]
fn any_bytes_are_an_answer_with_a_pack_or_refused() {
    let (base, copy) = ([7; NAME_BYTES], [0b1001_0000, 20, 0]);
    let by_name = [&[0x70 | 10][..], &base].concat();
    let seeds = [
        answer(&[(&[0x3d], b"a small blob\n"), (&[0xb0, 1], b"sixteen bytes...")]),
        answer(&[(&[0x34], b"base"), (&[0x63, 0x04], &copy), (&by_name, &copy)]),
        answer(&[]),
    ];
    for seed in &seeds {
        assert_eq!(PackReader::new().take(seed).as_ref(), Ok(seed));
    }
    let run = |bytes: &[u8]| {
        let whole = PackReader::new().take(bytes);
        // The result does not depend on how the bytes are split.
        let mut reader = PackReader::new();
        let parts: Result<Vec<_>, _> = bytes.chunks(7).map(|part| reader.take(part)).collect();
        assert_eq!(whole.is_ok(), parts.is_ok(), "{whole:?} {parts:?}");
        if let (Ok(whole), Ok(parts)) = (whole, parts) {
            assert_eq!(whole, parts.concat());
        }
    };
    let words = ["0000", "0001", "fff0", "0005\u{1}", "PACK", "000cshallow\n", "\u{7f}", "x\u{9c}"];
    Target { name: "answer_with_a_pack", run: &run, seeds: &seeds, words: &words }.fuzz();
}
