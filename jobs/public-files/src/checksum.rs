//! SHA-256 of files: the digest under which publishers and hubs name theirs.

use ring::digest::{Context, SHA256};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes read from the disk at a time.
const READ_AHEAD: usize = 1 << 20;

/// The SHA-256 of a file, in 64 hexadecimal digits. `report` gets the number of bytes read so far.
///
/// # Errors
/// The file cannot be read.
pub fn file_sha256(path: &Path, report: &mut dyn FnMut(u64)) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut context, mut buffer, mut done) = (Context::new(&SHA256), vec![0; READ_AHEAD], 0);
    loop {
        let read = match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        context.update(&buffer[..read]);
        done += read as u64;
        report(done);
    }
    let mut hex = String::with_capacity(64);
    for byte in context.finish().as_ref() {
        // Writing into a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        // FIPS 180-4's examples.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (text, digest) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            std::fs::write(&path, text).unwrap();
            let mut seen = 0;
            assert_eq!(file_sha256(&path, &mut |done| seen = done).unwrap(), digest);
            assert_eq!(seen, text.len() as u64);
        }
        assert!(file_sha256(&dir.path().join("none"), &mut |_| ()).is_err());
    }
}
