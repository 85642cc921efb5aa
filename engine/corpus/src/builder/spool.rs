//! A temporary file of hyperlinks: written with each passage, read again when all titles are known.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::PathBuf,
};

use crate::{error::BuildError, passage::NewLink};

/// A scratch file with the hyperlinks of each kept passage.
pub(super) struct HyperlinkSpool {
    path: PathBuf,
    out: BufWriter<File>,
}

/// A hyperlink read back.
pub(super) struct SpooledLink {
    pub(super) title: String,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl HyperlinkSpool {
    pub(super) fn create(path: PathBuf) -> Result<Self, BuildError> {
        let file = File::create(&path).map_err(BuildError::io(&path))?;
        Ok(Self { path, out: BufWriter::new(file) })
    }

    /// Appends the hyperlinks of the next passage.
    pub(super) fn push_links(&mut self, links: &[NewLink<'_>]) -> Result<(), BuildError> {
        self.write_links(links).map_err(BuildError::io(&self.path))
    }

    fn write_links(&mut self, links: &[NewLink<'_>]) -> io::Result<()> {
        self.out.write_all(&(links.len() as u32).to_le_bytes())?;
        for link in links {
            for number in [link.start, link.end, link.title.len() as u32] {
                self.out.write_all(&number.to_le_bytes())?;
            }
            self.out.write_all(link.title.as_bytes())?;
        }
        Ok(())
    }

    /// Reads the hyperlinks from the start.
    pub(super) fn into_reader(self) -> Result<SpoolReader, BuildError> {
        let Self { path, mut out } = self;
        out.flush().map_err(BuildError::io(&path))?;
        let file = File::open(&path).map_err(BuildError::io(&path))?;
        Ok(SpoolReader { path, input: BufReader::new(file) })
    }
}

/// Reads the content of a [`HyperlinkSpool`], passage by passage.
pub(super) struct SpoolReader {
    path: PathBuf,
    input: BufReader<File>,
}

impl SpoolReader {
    /// The hyperlinks of the next passage.
    pub(super) fn next_links(&mut self) -> Result<Vec<SpooledLink>, BuildError> {
        self.read_links().map_err(BuildError::io(&self.path))
    }

    fn read_links(&mut self) -> io::Result<Vec<SpooledLink>> {
        let count = self.read_number()?;
        (0..count)
            .map(|_| {
                let (start, end, length) = (self.read_number()?, self.read_number()?, self.read_number()?);
                let mut title = vec![0; length as usize];
                self.input.read_exact(&mut title)?;
                let title = String::from_utf8(title).map_err(io::Error::other)?;
                Ok(SpooledLink { title, start, end })
            })
            .collect()
    }

    fn read_number(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.input.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
}
