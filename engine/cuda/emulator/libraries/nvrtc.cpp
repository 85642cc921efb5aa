// libnvrtc.so.13, simulated: makes an image for the simulated driver.
//
// It reads only the includes of a source: the C++ compiler has built the kernels. No release has its version, so code
// kept on disk is never confused with the real one's.
#include "simulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>
#include <vector>

using namespace simulated;

namespace {

// nvrtcResult.
enum Status : int {
    DONE = 0,
    INVALID_INPUT = 3,
    INVALID_PROGRAM = 4,
    INVALID_OPTION = 5,
    COMPILATION = 6,
};

constexpr int ARCHITECTURES[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
constexpr char TARGET[] = "--gpu-architecture=sm_";

struct Program {
    std::string source, name;
    std::vector<std::string> headers;
    std::string log;
    bool is_compiled = false;
    Image image = {};
};

int told(const std::string& text, char* to) {
    memcpy(to, text.c_str(), text.size() + 1);
    return DONE;
}

// The architecture named by an option, or 0.
int target(const char* option) {
    if (strncmp(option, TARGET, strlen(TARGET)) != 0) return 0;
    int number = atoi(option + strlen(TARGET));
    for (int known : ARCHITECTURES) {
        if (number == known) return number;
    }
    return 0;
}

// True if all included headers were given.
bool includes_are_there(Program& program) {
    const std::string include = "#include \"";
    for (size_t at = program.source.find(include); at != std::string::npos; at = program.source.find(include, at + 1)) {
        size_t from = at + include.size();
        std::string name = program.source.substr(from, program.source.find('"', from) - from);
        bool is_there = false;
        for (const std::string& header : program.headers) is_there = is_there || header == name;
        if (is_there) continue;
        program.log = program.name + ": catastrophic error: cannot open source file \"" + name + "\"\n";
        return false;
    }
    return true;
}

}  // namespace

SIMULATED_LIBRARY("libnvrtc")

SIMULATED_CALL nvrtcVersion(int* major, int* minor) {
    int number = version("SIMULATED_CUDA_LIBRARIES", 13990);
    *major = number / 1000;
    *minor = number % 1000 / 10;
    return DONE;
}

SIMULATED_CALL nvrtcGetNumSupportedArchs(int* count) {
    *count = sizeof(ARCHITECTURES) / sizeof(ARCHITECTURES[0]);
    return DONE;
}

SIMULATED_CALL nvrtcGetSupportedArchs(int* architectures) {
    memcpy(architectures, ARCHITECTURES, sizeof(ARCHITECTURES));
    return DONE;
}

SIMULATED_CALL nvrtcCreateProgram(Program** made, const char* source, const char* name, int headers, const char* const* contents,
                                  const char* const* names) {
    if (source == nullptr || headers < 0 || (headers > 0 && (contents == nullptr || names == nullptr))) return INVALID_INPUT;
    *made = new Program;
    (*made)->source = source;
    (*made)->name = name == nullptr ? "default_program" : name;
    (*made)->headers.assign(names, names + headers);
    count("NVRTC programs", 1);
    return DONE;
}

SIMULATED_CALL nvrtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    count("NVRTC programs", -1);
    return DONE;
}

SIMULATED_CALL nvrtcCompileProgram(Program* program, int count, const char* const* options) {
    int architecture = 0;
    for (int i = 0; i < count; ++i) {
        std::string option = options[i];
        if (target(options[i]) != 0) {
            architecture = target(options[i]);
        } else if (option != "--std=c++17" && option != "-lineinfo" && option != "--ptxas-options=-v") {
            program->log = "nvrtc: error: unrecognized option " + option + " found\n";
            return INVALID_OPTION;
        }
    }
    if (architecture == 0) misused("%s is compiled for no architecture", program->name.c_str());
    if (!includes_are_there(*program)) return COMPILATION;
    Image& image = program->image;
    memcpy(image.magic, MAGIC, sizeof(MAGIC));
    memcpy(image.tag, TAG, sizeof(TAG));
    image.source = digest(program->source.c_str());
    image.major = architecture / 10;
    image.minor = architecture % 10;
    std::string family = program->name.substr(0, program->name.rfind(".cu"));
    snprintf(image.family, sizeof(image.family), "%s", family.c_str());
    program->log = "simulated: nothing is compiled\n";
    program->is_compiled = true;
    return DONE;
}

SIMULATED_CALL nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
    *bytes = program->log.size() + 1;
    return DONE;
}

SIMULATED_CALL nvrtcGetProgramLog(Program* program, char* log) { return told(program->log, log); }

SIMULATED_CALL nvrtcGetCUBINSize(Program* program, size_t* bytes) {
    if (!program->is_compiled) return INVALID_PROGRAM;
    *bytes = sizeof(Image);
    return DONE;
}

SIMULATED_CALL nvrtcGetCUBIN(Program* program, char* code) {
    if (!program->is_compiled) return INVALID_PROGRAM;
    memcpy(code, &program->image, sizeof(Image));
    return DONE;
}
