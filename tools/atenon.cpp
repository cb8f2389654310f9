// atenon: finds and executes the tools.
#include "cli/cli.h"

int main(int argc, char** argv) { return atenon::cli::dispatch(argc, argv); }
