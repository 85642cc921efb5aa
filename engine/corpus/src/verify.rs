//! Reads a whole corpus and compares it with `corpus.json`.

use std::path::PathBuf;

use crate::{
    corpus::Corpus,
    digest::{self, LinksDigest, PassagesDigest},
    error::CorpusError,
    info::INFO_FILE,
    mapped, schema,
};

impl Corpus {
    /// Reads all bytes of all files, checks strings for UTF-8 and computes every digest again.
    ///
    /// Runs at the speed of the disk or about a gigabyte per second, whichever is less.
    ///
    /// # Errors
    ///
    /// The first difference found.
    pub fn verify(&self) -> Result<(), CorpusError> {
        self.verify_files()?;
        let info_file = || self.dir().join(INFO_FILE);
        compare_digest(info_file(), &self.info().passages_digest, self.passages_digest()?)?;
        compare_digest(info_file(), &self.info().links_digest, self.links_digest())?;
        compare_digest(info_file(), &self.info().aliases_digest, self.aliases_digest()?)
    }

    /// Reads all bytes of all files and compares them with the digests of `corpus.json`. Opening a corpus compares only
    /// lengths and structures, so a changed letter of a text would be another text.
    ///
    /// # Errors
    ///
    /// The first file that differs.
    pub fn verify_files(&self) -> Result<(), CorpusError> {
        for listed in &self.info().files {
            let buffer = mapped::map_listed(self.dir(), listed)?;
            compare_digest(self.dir().join(&listed.name), &listed.digest, digest::of_bytes(&buffer))?;
        }
        Ok(())
    }

    fn passages_digest(&self) -> Result<String, CorpusError> {
        let mut digest = PassagesDigest::new();
        for passage in 0..self.len() as u32 {
            let utf8 = |field: &str, bytes| self.checked_utf8(schema::PASSAGES_FILE, field, passage, bytes);
            let id = utf8("id", self.passages.id_bytes(passage))?;
            let title = utf8("title", self.passages.title_bytes(passage))?;
            let text = utf8("text", self.passages.text_bytes(passage))?;
            digest.push_passage(id, title, text, self.passages.sentence_ends(passage));
        }
        Ok(digest.finish())
    }

    fn links_digest(&self) -> String {
        let mut digest = LinksDigest::new(self.info().link_origin);
        for passage in 0..self.len() as u32 {
            let [targets, starts, ends] = [0, 1, 2].map(|column| self.links.list_column(passage, column));
            digest.push_passage((0..targets.len()).map(|link| [targets[link], starts[link], ends[link]]));
        }
        digest.finish()
    }

    fn aliases_digest(&self) -> Result<String, CorpusError> {
        let aliases = (0..self.aliases.len() as u32)
            .map(|alias| {
                let (id, passage) = self.aliases.get(alias);
                Ok((self.checked_utf8(schema::ALIASES_FILE, "id", alias, id)?, passage))
            })
            .collect::<Result<Vec<_>, CorpusError>>()?;
        Ok(digest::of_aliases(aliases.into_iter()))
    }

    fn checked_utf8<'a>(&self, file: &str, field: &str, row: u32, bytes: &'a [u8]) -> Result<&'a str, CorpusError> {
        std::str::from_utf8(bytes).map_err(|error| CorpusError::Damaged {
            path: self.dir().join(file),
            detail: format!("the {field} in row {row} is not UTF-8: {error}"),
        })
    }
}

fn compare_digest(path: PathBuf, expected: &str, found: String) -> Result<(), CorpusError> {
    if expected == found {
        return Ok(());
    }
    Err(CorpusError::Digest { path, expected: expected.to_owned(), found })
}
