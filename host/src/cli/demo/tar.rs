//! Archives in the "ustar" format, as much of it as an image needs (pure).
//!
//! Times, owners and order are fixed: the same content gives the same bytes.

const BLOCK: usize = 512;

#[derive(Default)]
pub(super) struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    pub(super) fn directory(&mut self, path: &str, mode: u32) {
        self.entry(&format!("{path}/"), b'5', mode, "", &[]);
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entry(path, b'0', mode, "", content);
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.entry(path, b'2', 0o777, target, &[]);
    }

    /// Two empty blocks end an archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend([0; 2 * BLOCK]);
        self.bytes
    }

    fn entry(&mut self, path: &str, kind: u8, mode: u32, target: &str, content: &[u8]) {
        let mut header = Header([0; BLOCK]);
        header.put(0, path.as_bytes());
        header.put(100, format!("{mode:07o}").as_bytes());
        header.put(108, b"0000000");
        header.put(116, b"0000000");
        header.put(124, format!("{:011o}", content.len()).as_bytes());
        header.put(136, b"00000000000");
        // The sum is taken as if its own field held spaces.
        header.put(148, b"        ");
        header.put(156, &[kind]);
        header.put(157, target.as_bytes());
        header.put(257, b"ustar\x0000");
        let sum: u32 = header.0.iter().map(|byte| u32::from(*byte)).sum();
        header.put(148, format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend(header.0);
        self.bytes.extend(content);
        let padded = self.bytes.len().next_multiple_of(BLOCK);
        self.bytes.resize(padded, 0);
    }
}

struct Header([u8; BLOCK]);

impl Header {
    /// Names here are our own and short; a longer one would be cut at the end of the block, not of its field.
    fn put(&mut self, at: usize, value: &[u8]) {
        for (place, byte) in self.0.iter_mut().skip(at).zip(value) {
            *place = *byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(bytes: &[u8], at: usize, length: usize) -> String {
        let field = bytes[at..at + length].split(|byte| *byte == 0).next().unwrap();
        String::from_utf8(field.to_vec()).unwrap()
    }

    #[test]
    fn entries_have_name_kind_mode_and_padded_content() {
        let mut tar = Tar::default();
        tar.directory("bin", 0o755);
        tar.file("bin/x", 0o755, b"program");
        tar.link("bin/sh", "x");
        let bytes = tar.finish();
        assert_eq!(bytes.len(), BLOCK * (1 + 2 + 1 + 2));
        assert_eq!((field(&bytes, 0, 100), bytes[156]), ("bin/".into(), b'5'));
        let file = &bytes[BLOCK..];
        assert_eq!(
            (field(file, 0, 100), field(file, 100, 8), file[156]),
            ("bin/x".into(), "0000755".into(), b'0')
        );
        assert_eq!(field(file, 124, 12), "00000000007");
        assert_eq!(&file[BLOCK..BLOCK + 8], b"program\0");
        let link = &bytes[BLOCK * 3..];
        assert_eq!((field(link, 157, 100), link[156]), ("x".into(), b'2'));
        assert_eq!(&bytes[BLOCK * 4..], [0; BLOCK * 2]);
    }

    #[test]
    fn the_sum_of_a_header_counts_its_own_field_as_spaces() {
        let mut tar = Tar::default();
        tar.file("a", 0o644, b"");
        let bytes = tar.finish();
        let mut header = bytes[..BLOCK].to_vec();
        let told = u32::from_str_radix(&field(&header, 148, 6), 8).unwrap();
        header[148..156].fill(b' ');
        assert_eq!(told, header.iter().map(|byte| u32::from(*byte)).sum::<u32>());
    }
}
