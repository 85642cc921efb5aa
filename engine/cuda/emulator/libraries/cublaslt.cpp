// libcublasLt.so.13, simulated: column-major products in plain loops, summed in f32.
//
// Its algorithms are like the real one's, good ones and ones that must be refused:
//
//   1  cuts the sum where there are many columns      its bits depend on how many there are
//   2  adds a matrix only where it is the output
//   3  serves at most 32,768 columns
//   4  serves all
//   5  serves all, with other bits than 4, and needs memory of its own
//   6  has the bits of 4 in half the time where there is much to do, and refuses 37 columns without a word before
//
//   SIMULATED_CUDA_POOR_PRODUCTS   1: all need memory of their own, and none adds a matrix outside its output
#include "simulated.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace simulated;

namespace {

// cublasStatus_t.
enum Status : int {
    DONE = 0,
    NO_CONTEXT = 1,
    INVALID = 7,
    FAILED = 13,
    UNSUPPORTED = 15,
};

// cudaDataType.
enum Type : int { F32 = 0, BF16 = 14 };

constexpr int COMPUTE_32F = 68;
constexpr int NORMAL = 0, TRANSPOSED = 1;
// cublasLtEpilogue_t: bits of these.
constexpr unsigned NOTHING = 1, RELU = 2, BIAS = 4, GELU = 32;

struct Operation {
    int compute;
    int transposed_a = NORMAL, transposed_b = NORMAL;
    unsigned epilogue = NOTHING;
    const void* bias = nullptr;
};

// Column-major: a column's numbers lie together, the next column `leading` numbers further.
struct Layout {
    int type;
    uint64_t rows, columns;
    int64_t leading;

    size_t size() const { return type == F32 ? 4 : 2; }
    size_t bytes() const { return columns == 0 ? 0 : ((columns - 1) * static_cast<size_t>(leading) + rows) * size(); }
    bool is_whole() const { return rows > 0 && columns > 0 && leading >= static_cast<int64_t>(rows) && (type == F32 || type == BF16); }
};

struct Preference {
    uint64_t workspace = 0;
    uint32_t schemes = 7;
    uint32_t alignment[4] = {256, 256, 256, 256};
};

// 64 bytes, as declared by the caller.
struct Algorithm {
    int32_t id, parts, scheme, is_out_of_place;
    uint64_t workspace;
    // Of A, B, C and D.
    uint32_t alignment[4];
    uint64_t rest[3];
};
static_assert(sizeof(Algorithm) == 64, "as cublasLt.h has it");

struct Found {
    Algorithm algorithm;
    size_t workspace;
    int32_t state;
    float waves;
    int32_t reserved[4];
};
static_assert(sizeof(Found) == 96, "as cublasLt.h has it");

constexpr uint64_t COLUMNS_OF_3 = 32768, REFUSED_BY_6 = 37;
// Multiplications and additions from which algorithm 4 does everything twice.
constexpr uint64_t MUCH = 1 << 24;
volatile float wasted;

struct Problem {
    Operation operation;
    Layout a, b, c, d;

    uint64_t inner() const { return operation.transposed_a == TRANSPOSED ? a.rows : a.columns; }

    Status check() const {
        uint64_t rows = operation.transposed_a == TRANSPOSED ? a.columns : a.rows;
        uint64_t columns = operation.transposed_b == TRANSPOSED ? b.rows : b.columns;
        uint64_t inner_b = operation.transposed_b == TRANSPOSED ? b.columns : b.rows;
        bool fits = inner() == inner_b && rows == d.rows && columns == d.columns && c.rows == d.rows && c.columns == d.columns;
        if (!a.is_whole() || !b.is_whole() || !c.is_whole() || !d.is_whole() || !fits) return INVALID;
        bool has_bias = (operation.epilogue & BIAS) != 0;
        if (has_bias && operation.bias == nullptr) return INVALID;
        // The known types among those documented for sums in f32.
        bool is_listed = a.type == b.type && c.type == d.type && (d.type == a.type || d.type == F32);
        bool is_gelu = (operation.epilogue & GELU) != 0;
        if (!is_listed || (is_gelu && a.type == F32)) return UNSUPPORTED;
        // Loads are of 16 bytes.
        for (const Layout* layout : {&a, &b, &c, &d}) {
            if (static_cast<size_t>(layout->leading) * layout->size() % 16 != 0) return UNSUPPORTED;
        }
        return DONE;
    }

    Status serves(const Algorithm& algorithm) const {
        if (algorithm.id < 1 || algorithm.id > 6) return INVALID;
        return algorithm.id == 3 && d.columns > COLUMNS_OF_3 ? UNSUPPORTED : DONE;
    }
};

float number(const void* of, const Layout& layout, size_t at) {
    if (layout.type == F32) return static_cast<const float*>(of)[at];
    uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(of)[at]) << 16;
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

// Rounds to nearest, ties to even.
void put(void* to, const Layout& layout, size_t at, float number) {
    if (layout.type == F32) {
        static_cast<float*>(to)[at] = number;
        return;
    }
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
    static_cast<uint16_t*>(to)[at] = static_cast<uint16_t>(rounded >> 16);
}

// The vectors of the inner index, one after the other, a multiple of 8 apart and filled up with zeros.
std::vector<float> vectors(const void* of, const Layout& layout, bool are_columns, size_t inner, size_t padded) {
    size_t count = are_columns ? layout.columns : layout.rows;
    std::vector<float> numbers(count * padded, 0.0f);
    for (size_t i = 0; i < count; ++i) {
        for (size_t k = 0; k < inner; ++k) {
            size_t leading = static_cast<size_t>(layout.leading);
            numbers[i * padded + k] = number(of, layout, are_columns ? i * leading + k : k * leading + i);
        }
    }
    return numbers;
}

typedef float Eight __attribute__((vector_size(32)));

float sum(const float* x, const float* y, size_t count) {
    Eight parts = {};
    for (size_t k = 0; k < count; k += 8) {
        Eight left, right;
        memcpy(&left, x + k, sizeof(left));
        memcpy(&right, y + k, sizeof(right));
        parts += left * right;
    }
    return ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]));
}

// In the algorithm's number of parts.
float dot(const float* x, const float* y, size_t padded, size_t parts) {
    size_t length = (padded / 8 + parts - 1) / parts * 8;
    float all = 0.0f;
    for (size_t from = 0; from < padded; from += length) all += sum(x + from, y + from, std::min(length, padded - from));
    return all;
}

float finish(float x, unsigned epilogue) {
    if ((epilogue & RELU) != 0) return x > 0.0f ? x : 0.0f;
    if ((epilogue & GELU) != 0) return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    return x;
}

struct Product {
    Problem problem;
    Algorithm algorithm;
    float alpha, beta;
    const void *a, *b, *c;
    void* d;

    void run() const {
        const auto& [operation, layout_a, layout_b, layout_c, layout_d] = problem;
        size_t inner = problem.inner(), padded = (inner + 7) / 8 * 8;
        std::vector<float> left = vectors(a, layout_a, operation.transposed_a == TRANSPOSED, inner, padded);
        std::vector<float> right = vectors(b, layout_b, operation.transposed_b == NORMAL, inner, padded);
        size_t parts = algorithm.id == 4 || algorithm.id == 6 ? 1 : algorithm.id == 1 && layout_d.columns < 64 ? 1 : static_cast<size_t>(algorithm.id) + 1;
        bool is_slow = algorithm.id == 4 && layout_d.columns * layout_d.rows * inner >= MUCH;
        for (size_t j = 0; j < layout_d.columns; ++j) {
            for (size_t i = 0; i < layout_d.rows; ++i) {
                if (is_slow) wasted = dot(&left[i * padded], &right[j * padded], padded, parts);
                float x = alpha * dot(&left[i * padded], &right[j * padded], padded, parts);
                if (beta != 0.0f) x += beta * number(c, layout_c, j * static_cast<size_t>(layout_c.leading) + i);
                if ((operation.epilogue & BIAS) != 0) x += number(operation.bias, layout_d, i);
                put(d, layout_d, j * static_cast<size_t>(layout_d.leading) + i, finish(x, operation.epilogue));
            }
        }
    }
};

bool is_aligned(const void* address, uint32_t alignment) { return reinterpret_cast<uintptr_t>(address) % alignment == 0; }

template <class T>
int copied(T& to, const void* from, size_t bytes) {
    if (from == nullptr || bytes != sizeof(T)) return INVALID;
    memcpy(&to, from, bytes);
    return DONE;
}

template <class T>
int made(T** to, T value, const char* kind) {
    *to = new T(value);
    count(kind, 1);
    return DONE;
}

template <class T>
int destroyed(T* what, const char* kind) {
    delete what;
    count(kind, -1);
    return DONE;
}

struct Library {
    int nothing;
};

}  // namespace

SIMULATED_LIBRARY("libcublasLt")

SIMULATED_CALL cublasLtGetProperty(int property, int* value) {
    int number = version("SIMULATED_CUDA_LIBRARIES", 13990);
    int parts[3] = {number / 1000, number % 1000 / 10, 0};
    if (property < 0 || property > 2) return INVALID;
    *value = parts[property];
    return DONE;
}

SIMULATED_CALL cublasLtCreate(Library** handle) {
    return usable() == SUCCESS ? made(handle, Library{0}, "cublasLt handles") : NO_CONTEXT;
}

SIMULATED_CALL cublasLtDestroy(Library* handle) { return destroyed(handle, "cublasLt handles"); }

SIMULATED_CALL cublasLtMatmulDescCreate(Operation** operation, int compute, int scale) {
    if (compute != COMPUTE_32F || scale != F32) return UNSUPPORTED;
    Operation value;
    value.compute = compute;
    return made(operation, value, "cublasLt operations");
}

SIMULATED_CALL cublasLtMatmulDescDestroy(Operation* operation) { return destroyed(operation, "cublasLt operations"); }

SIMULATED_CALL cublasLtMatmulDescSetAttribute(Operation* operation, int attribute, const void* value, size_t bytes) {
    switch (attribute) {
        case 3: return copied(operation->transposed_a, value, bytes);
        case 4: return copied(operation->transposed_b, value, bytes);
        case 7: return copied(operation->epilogue, value, bytes);
        case 8: return copied(operation->bias, value, bytes);
        default: misused("nothing is known of attribute %d of an operation", attribute);
    }
}

SIMULATED_CALL cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    return made(layout, Layout{type, rows, columns, leading}, "cublasLt layouts");
}

SIMULATED_CALL cublasLtMatrixLayoutDestroy(Layout* layout) { return destroyed(layout, "cublasLt layouts"); }

SIMULATED_CALL cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value, size_t bytes) {
    if (attribute != 3) misused("nothing is known of attribute %d of a layout", attribute);
    return copied(layout->columns, value, bytes);
}

SIMULATED_CALL cublasLtMatmulPreferenceCreate(Preference** preference) { return made(preference, Preference(), "cublasLt preferences"); }

SIMULATED_CALL cublasLtMatmulPreferenceDestroy(Preference* preference) { return destroyed(preference, "cublasLt preferences"); }

SIMULATED_CALL cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value, size_t bytes) {
    switch (attribute) {
        case 1: return copied(preference->workspace, value, bytes);
        case 3: return copied(preference->schemes, value, bytes);
        case 5:
        case 6:
        case 7:
        case 8: return copied(preference->alignment[attribute - 5], value, bytes);
        default: misused("nothing is known of attribute %d of a preference", attribute);
    }
}

SIMULATED_CALL cublasLtMatmulAlgoGetHeuristic(Library*, const Operation* operation, const Layout* a, const Layout* b, const Layout* c,
                                              const Layout* d, const Preference* preference, int asked, Found* found, int* count) {
    *count = 0;
    if (asked < 1) return INVALID;
    Problem problem = {*operation, *a, *b, *c, *d};
    Status checked = problem.check();
    if (checked != DONE) return checked;
    Algorithm all[] = {{1, 2, 0, 1, 1 << 20, {}, {}}, {2, 1, 0, 0, 0, {}, {}}, {2, 4, 2, 1, 1 << 20, {}, {}},
                       {3, 1, 0, 1, 0, {}, {}},       {4, 1, 0, 1, 0, {}, {}}, {5, 1, 0, 1, 4096, {}, {}},
                       {6, 1, 0, 1, 0, {}, {}}};
    static const char* poor = getenv("SIMULATED_CUDA_POOR_PRODUCTS");
    for (Algorithm& algorithm : all) {
        if (poor != nullptr && strcmp(poor, "1") == 0) {
            algorithm.is_out_of_place = 0;
            algorithm.workspace = std::max<uint64_t>(algorithm.workspace, 4096);
        }
        bool is_wanted = (static_cast<uint32_t>(algorithm.scheme) & ~preference->schemes) == 0 && algorithm.workspace <= preference->workspace;
        if (!is_wanted || *count >= asked || problem.serves(algorithm) != DONE) continue;
        memcpy(algorithm.alignment, preference->alignment, sizeof(algorithm.alignment));
        found[(*count)++] = {algorithm, algorithm.workspace, DONE, 1.0f, {}};
    }
    return *count > 0 ? DONE : UNSUPPORTED;
}

SIMULATED_CALL cublasLtMatmulAlgoCheck(Library*, const Operation* operation, const Layout* a, const Layout* b, const Layout* c,
                                       const Layout* d, const Algorithm* algorithm, Found* found) {
    Problem problem = {*operation, *a, *b, *c, *d};
    Status checked = problem.check();
    if (checked == DONE) checked = problem.serves(*algorithm);
    *found = {*algorithm, algorithm->workspace, checked, 1.0f, {}};
    return checked;
}

SIMULATED_CALL cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute, void* value, size_t bytes, size_t* written) {
    int32_t told;
    switch (attribute) {
        case 0: told = algorithm->id; break;
        case 2: told = algorithm->parts; break;
        case 3: told = algorithm->scheme; break;
        default: told = 0; break;
    }
    // The inner shape and the shape of a cluster have 16 bits.
    size_t length = attribute == 7 || attribute == 8 ? 2 : 4;
    if (bytes != length) return INVALID;
    memcpy(value, &told, length);
    if (written != nullptr) *written = length;
    return DONE;
}

SIMULATED_CALL cublasLtMatmulAlgoCapGetAttribute(const Algorithm* algorithm, int attribute, void* value, size_t bytes, size_t* written) {
    if (attribute != 4) misused("nothing is known of capability %d of an algorithm", attribute);
    if (bytes != sizeof(int32_t)) return INVALID;
    memcpy(value, &algorithm->is_out_of_place, sizeof(int32_t));
    if (written != nullptr) *written = sizeof(int32_t);
    return DONE;
}

// The factors are of the host, and read before it returns.
SIMULATED_CALL cublasLtMatmul(Library*, const Operation* operation, const float* alpha, const void* a, const Layout* layout_a, const void* b,
                              const Layout* layout_b, const float* beta, const void* c, const Layout* layout_c, void* d,
                              const Layout* layout_d, const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream) {
    if (usable() != SUCCESS) return usable() == ILLEGAL_ADDRESS ? FAILED : NO_CONTEXT;
    if (algorithm == nullptr) misused("a product without an algorithm");
    Product product = {{*operation, *layout_a, *layout_b, *layout_c, *layout_d}, *algorithm, *alpha, *beta, a, b, c, d};
    Status checked = product.problem.check();
    if (checked == DONE) checked = product.problem.serves(*algorithm);
    if (checked != DONE) return checked;
    if (algorithm->id == 6 && layout_d->columns == REFUSED_BY_6) return UNSUPPORTED;
    if (*beta != 0.0f && c != d && algorithm->is_out_of_place == 0) return UNSUPPORTED;
    if (workspace_bytes < algorithm->workspace || !is_aligned(workspace, 256)) return INVALID;
    const void* operands[4] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) {
        if (!is_aligned(operands[i], algorithm->alignment[i])) return INVALID;
    }
    bool has_bias = (operation->epilogue & BIAS) != 0;
    bool is_held = holds(a, layout_a->bytes()) && holds(b, layout_b->bytes()) && holds(d, layout_d->bytes()) &&
                   (*beta == 0.0f || holds(c, layout_c->bytes())) && (algorithm->workspace == 0 || holds(workspace, algorithm->workspace)) &&
                   (!has_bias || holds(operation->bias, layout_d->rows * layout_d->size()));
    if (!is_held) misused("a product of what lies in no buffer");
    return enqueue_product(stream, [product] { product.run(); }) == SUCCESS ? DONE : INVALID;
}
