//! Architectures, one a file: configuration as transformers 4 and 5 write it, weights by their names there, and a forward
//! pass over packed sequences.
