//! Pages of one row group: decompressed here, and checked against the footer before they are decoded.
//!
//! The decoder gets pages that are not compressed. So a damaged length is found before memory is taken for it, and the
//! codecs are those that the project has for its other files. The values of all pages of a column must be those of the
//! footer.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::delta;

/// The most bytes of a page after decompression.
const LONGEST_PAGE: usize = 1 << 30;
/// Bytes that every page may have, whatever the footer says of its column.
const USUAL_PAGE: usize = 16 << 20;
/// The most values of a page. Writers make pages of a megabyte.
const MOST_VALUES: u64 = 1 << 26;

/// The error of a page that would take more memory than its column is said to have.
const LONG: &str = "a page is longer than the footer says of all pages";

/// One row group of a file.
pub(super) struct GroupPages {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    index: usize,
    /// Values met so far in the pages of each column.
    met: Vec<Arc<AtomicU64>>,
}

impl GroupPages {
    pub(super) fn new(file: Arc<File>, metadata: Arc<ParquetMetaData>, index: usize) -> Self {
        let met = metadata.row_group(index).columns().iter().map(|_| Arc::default()).collect();
        Self { file, metadata, index, met }
    }

    /// Checks, after the last row, that all values of the footer were in the pages.
    pub(super) fn check_values(&self) -> Result<()> {
        for (column, met) in self.group().columns().iter().zip(&self.met) {
            let met = met.load(Ordering::Relaxed);
            if met != value_count(column)? {
                let reason = format!("its pages have {met} values, and the footer says {}", column.num_values());
                return Err(column_error(column, self.index, &reason));
            }
        }
        Ok(())
    }

    fn group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }
}

impl RowGroups for GroupPages {
    fn num_rows(&self) -> usize {
        self.group().num_rows().try_into().unwrap_or(0)
    }

    fn column_chunks(&self, i: usize) -> Result<Box<dyn PageIterator>> {
        let column = self.group().column(i);
        let plain = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        let pages = ColumnPages {
            reader: SerializedPageReader::new(Arc::clone(&self.file), &plain, self.num_rows(), None)?,
            column: column.clone(),
            group: self.index,
            met: Arc::clone(&self.met[i]),
        };
        Ok(Box::new(OneColumn(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The only column chunk of a column.
struct OneColumn(Option<ColumnPages>);

impl Iterator for OneColumn {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneColumn {}

/// The pages of a column chunk.
struct ColumnPages {
    reader: SerializedPageReader<File>,
    column: ColumnChunkMetaData,
    group: usize,
    met: Arc<AtomicU64>,
}

impl ColumnPages {
    fn error(&self, reason: &str) -> ParquetError {
        column_error(&self.column, self.group, reason)
    }

    /// Counts the values of a data page.
    fn count_values(&self, values: u32) -> Result<()> {
        let met = self.met.fetch_add(values.into(), Ordering::Relaxed) + u64::from(values);
        if met > value_count(&self.column)? || u64::from(values) > MOST_VALUES {
            let footer = self.column.num_values();
            return Err(self.error(&format!("a page of {values} values; the footer says {footer} of all pages")));
        }
        Ok(())
    }

    /// Decompresses a page whose first `levels` bytes are not compressed.
    fn decompress(&self, page: &Bytes, levels: usize) -> Result<Bytes> {
        let most = usize::try_from(self.column.uncompressed_size()).unwrap_or(0).clamp(USUAL_PAGE, LONGEST_PAGE);
        let (levels, values) =
            page.split_at_checked(levels).ok_or_else(|| self.error("a page is shorter than its header says"))?;
        let unpacked = match self.column.compression() {
            Compression::UNCOMPRESSED => return Ok(page.clone()),
            // A page of nulls alone may have no values at all.
            _ if values.is_empty() => Vec::new(),
            Compression::SNAPPY => self.read_snappy(values, most)?,
            Compression::GZIP(_) => self.read_all(flate2::read::MultiGzDecoder::new(values), most)?,
            Compression::ZSTD(_) => {
                let decoder = zstd::stream::read::Decoder::with_buffer(values);
                self.read_all(decoder.map_err(|error| self.error(&error.to_string()))?, most)?
            }
            other => {
                let codec = other.to_string();
                let codec = codec.split('(').next().unwrap_or_default();
                return Err(self.error(&format!("it is compressed by {codec}; allowed: nothing, SNAPPY, GZIP, ZSTD")));
            }
        };
        Ok(if levels.is_empty() { unpacked.into() } else { [levels, &unpacked].concat().into() })
    }

    /// The values of a page of the first version, which stand after its levels. A column without levels has none.
    fn after_levels<'p>(&self, page: &'p [u8], encodings: [Encoding; 2]) -> Result<&'p [u8]> {
        let column = self.column.column_descr();
        let mut rest = page;
        for (most, encoding) in [column.max_rep_level(), column.max_def_level()].into_iter().zip(encodings) {
            if most == 0 {
                continue;
            }
            if encoding != Encoding::RLE {
                return Err(self.error(&format!("levels of the encoding {encoding}; allowed: RLE")));
            }
            let levels = rest
                .split_first_chunk()
                .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
            (_, rest) = levels.ok_or_else(|| self.error("the levels of a page are longer than the page"))?;
        }
        Ok(rest)
    }

    fn check_lengths(&self, encoding: Encoding, values: &[u8], most: u32) -> Result<()> {
        delta::check_lengths(encoding, values, most.into()).map_err(|reason| self.error(reason))
    }

    fn read_snappy(&self, values: &[u8], most: usize) -> Result<Vec<u8>> {
        let failed = |error: snap::Error| self.error(&format!("a page cannot be decompressed: {error}"));
        if snap::raw::decompress_len(values).map_err(failed)? > most {
            return Err(self.error(LONG));
        }
        snap::raw::Decoder::new().decompress_vec(values).map_err(failed)
    }

    fn read_all(&self, decoder: impl Read, most: usize) -> Result<Vec<u8>> {
        let mut unpacked = Vec::new();
        let read = decoder.take(most as u64 + 1).read_to_end(&mut unpacked);
        read.map_err(|error| self.error(&format!("a page cannot be decompressed: {error}")))?;
        if unpacked.len() > most {
            return Err(self.error(LONG));
        }
        Ok(unpacked)
    }
}

impl PageReader for ColumnPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let next = self.reader.get_next_page().map_err(|error| self.error(&error.to_string()))?;
        Ok(match next {
            Some(Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, statistics }) => {
                self.count_values(num_values)?;
                let buf = self.decompress(&buf, 0)?;
                let levels = [rep_level_encoding, def_level_encoding];
                self.check_lengths(encoding, self.after_levels(&buf, levels)?, num_values)?;
                Some(Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, statistics })
            }
            Some(Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls,
                num_rows,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                statistics,
            }) => {
                self.count_values(num_values)?;
                let levels = def_levels_byte_len as usize + rep_levels_byte_len as usize;
                if levels > buf.len() || num_nulls > num_values {
                    return Err(self.error("a page is shorter than its header says"));
                }
                let buf = if is_compressed { self.decompress(&buf, levels)? } else { buf };
                self.check_lengths(encoding, &buf[levels..], num_values)?;
                Some(Page::DataPageV2 {
                    buf,
                    num_values,
                    encoding,
                    num_nulls,
                    num_rows,
                    def_levels_byte_len,
                    rep_levels_byte_len,
                    is_compressed: false,
                    statistics,
                })
            }
            Some(Page::DictionaryPage { buf, num_values, encoding, is_sorted }) => {
                let buf = self.decompress(&buf, 0)?;
                // Every value takes a byte at least.
                if num_values as usize > buf.len() {
                    return Err(self.error(&format!("a dictionary of {num_values} values in {} bytes", buf.len())));
                }
                Some(Page::DictionaryPage { buf, num_values, encoding, is_sorted })
            }
            None => None,
        })
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.reader.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        Err(self.error("a page was to be skipped, and every row is read"))
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.reader.at_record_boundary()
    }
}

impl Iterator for ColumnPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// The values of a column chunk, nulls included.
fn value_count(column: &ColumnChunkMetaData) -> Result<u64> {
    u64::try_from(column.num_values()).map_err(|_| ParquetError::General("a column of less than 0 values".to_owned()))
}

fn column_error(column: &ColumnChunkMetaData, group: usize, reason: &str) -> ParquetError {
    ParquetError::General(format!("row group {group}, column `{}`: {reason}", column.column_path().string()))
}
