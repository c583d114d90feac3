# make install: program, shared library, headers, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS sereno RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS sereno_shared sereno_governor EXPORT serenoTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/sereno DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

foreach(name sereno sereno-governor)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(SERENO_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/sereno)
install(EXPORT serenoTargets NAMESPACE sereno:: FILE serenoConfig.cmake DESTINATION ${SERENO_CMAKE_DIR})
write_basic_package_version_file(serenoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/serenoConfigVersion.cmake DESTINATION ${SERENO_CMAKE_DIR})
